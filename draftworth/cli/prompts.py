"""`draftworth prompts import`: makes prompt sets from a service's logs or from public sets."""

import argparse
import re
import sys
from functools import partial
from pathlib import Path

from draftworth.cli.arguments import positive_int, whole_number
from draftworth.errors import UserInputError, counted
from draftworth.experiment.strict_model import MAX_NAME_LENGTH, PATTERN_WORDS, SET_NAME
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.prompt_sets import Imported, ImportOrder, import_prompts, left_out_words

_MOST_PROMPTS = 10_000
_PROGRESS_RECORDS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action `import`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    action = actions.add_parser(
        "import",
        help="write prompt files from a log",
        description="Write DIR/NAME/CASE.jsonl, and DIR/NAME/answers/CASE.jsonl where the log has "
        "answers. Nothing of a prompt is printed.",
    )
    action.add_argument(
        "source", metavar="SOURCE", type=Path, help="a JSON Lines or JSON file, or a folder of them"
    )
    action.add_argument("--format", required=True, choices=FORMATS, help="the form of the source")
    action.add_argument(
        "--out", required=True, metavar="DIR", type=Path, help="folder of prompt classes"
    )
    action.add_argument(
        "--class", required=True, metavar="NAME", dest="prompt_class", help="the prompt class"
    )
    action.add_argument(
        "--case", metavar="NAME", help="the one case (default: the set's categories, or the source)"
    )
    action.add_argument(
        "--max-prompts",
        type=partial(positive_int, at_most=_MOST_PROMPTS),
        default=ImportOrder.max_prompts,
        help="prompts of each case, drawn at random from all different ones (%(default)s)",
    )
    action.add_argument(
        "--seed", type=whole_number, default=0, help="another seed draws others (%(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Import the prompts, and print how many there are."""
    order = ImportOrder(
        source=arguments.source,
        format=arguments.format,
        out=arguments.out,
        prompt_class=_name("--class", arguments.prompt_class),
        case=_name("--case", arguments.case) if arguments.case is not None else None,
        max_prompts=arguments.max_prompts,
        seed=arguments.seed,
    )
    print_imported(import_prompts(order, show_progress), order)
    return 0


def _name(option: str, text: str) -> str:
    if not re.fullmatch(SET_NAME, text) or len(text) > MAX_NAME_LENGTH:
        raise UserInputError(
            f"{option}: given {text[:80]!r}, allowed: {PATTERN_WORDS[SET_NAME]}; at most "
            f"{MAX_NAME_LENGTH} characters, because it is part of file names and of metrics"
        )
    return text


def show_progress(records: int) -> None:
    """Print to standard error, after every 100,000 records, how many are read."""
    if records % _PROGRESS_RECORDS == 0:
        print(f"{records:,} records read", file=sys.stderr, flush=True)


def print_imported(imported: Imported, order: ImportOrder) -> None:
    """Print how many prompts an import wrote, and what it left out.

    imported: the prompts that were drawn from the log. order: the options of the import.
    """
    for case, sample in sorted(imported.samples.items()):
        prompts = counted(len(sample.drawn), "prompt")
        print(
            f"{order.path_of(case)}: {prompts}, {sample.answers} with the answer of the log; "
            f"{sample.repeats:,} repeats of them, {sample.not_drawn:,} other requests not drawn"
        )
    print(f"{counted(imported.records, 'record')} read with seed {order.seed}")
    print(left_out_words(imported.left_out))
    for reason, records in imported.notes.items():
        print(f"note: {records.count:,} {reason} (the first: {records.first})")
    if most := max(sample.most_tokens for sample in imported.samples.values()):
        print(
            f"note: prompts have max_tokens of their own, up to {most:,}: workload.output_tokens "
            "must be at least that"
        )
    print(
        "note: people wrote these texts, and a deploy uploads them: remove those that you must not "
        "pass on; a public set has a licence of its own (docs/prompts.md)"
    )
