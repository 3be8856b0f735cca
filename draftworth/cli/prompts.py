"""`draftworth prompts`: makes prompt sets from a service's logs or from public sets.

`import` draws prompts at random; `choose` chooses few of them that stand for all.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from draftworth.cli.arguments import existing_path, positive_int, whole_number
from draftworth.errors import UserInputError, counted
from draftworth.experiment.strict_model import MAX_NAME_LENGTH, PATTERN_WORDS, SET_NAME
from draftworth.importing.choosing import ChoiceOrder, choose
from draftworth.importing.forms.tables import COLUMNS, field_paths
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.prompt_sets import Imported, ImportOrder, import_prompts, left_out_words
from draftworth.records.logged_traffic import MIN_MEASURED, LoggedTraffic, read_prompt_forecasts

_MOST_PROMPTS = 10_000
_PROGRESS_RECORDS = 100_000
_MOST_MODELS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions `import` and `choose`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_import(actions)
    _add_choose(actions)


def _add_import(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "import",
        help="write prompt files from a log",
        description="Write DIR/NAME/CASE.jsonl, and DIR/NAME/answers/CASE.jsonl where the log has "
        "answers. No text of a prompt is printed.",
    )
    action.add_argument(
        "source",
        metavar="SOURCE",
        type=existing_path,
        help="a file of JSON Lines, JSON or CSV, or a folder of them",
    )
    form = action.add_mutually_exclusive_group(required=True)
    form.add_argument("--format", choices=FORMATS, help="the form of the source")
    form.add_argument(
        "--map",
        action="append",
        metavar="NAME=PATH",
        help="for any other form: where a record has this part of a request "
        f"({', '.join(COLUMNS)}), for example messages=inputs.messages; give it once for each part",
    )
    action.add_argument(
        "--out", required=True, metavar="DIR", type=Path, help="folder of prompt classes"
    )
    action.add_argument(
        "--class", required=True, metavar="NAME", dest="prompt_class", help="the prompt class"
    )
    action.add_argument(
        "--case",
        metavar="NAME",
        help="name of the case (default: the categories of the set, or the name of the source)",
    )
    action.add_argument(
        "--max-prompts",
        type=partial(positive_int, at_most=_MOST_PROMPTS),
        default=ImportOrder.max_prompts,
        help="at most this many prompts of a case, drawn at random from all that differ "
        "(%(default)s)",
    )
    action.add_argument(
        "--seed", type=whole_number, default=0, help="another seed draws other ones (%(default)s)"
    )


def _add_choose(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "choose",
        help="choose a few prompts to measure that stand for all of a log",
        description="Write DIR/NAME/chosen.jsonl, and DIR/NAME.traffic.json for `draftworth report "
        "RUN --traffic`, which then says what all of the log's prompts cost.",
    )
    action.add_argument(
        "forecasts",
        metavar="FORECASTS",
        type=existing_path,
        help="the file that `draftworth estimate EXPERIMENT --by-prompt` wrote",
    )
    action.add_argument(
        "--prompts",
        required=True,
        metavar="DIR",
        type=existing_path,
        help="folder of the prompt classes that were estimated",
    )
    action.add_argument(
        "--out", required=True, metavar="DIR", type=Path, help="folder of prompt classes"
    )
    action.add_argument(
        "--class",
        required=True,
        metavar="NAME",
        dest="prompt_class",
        help="the prompt class of the chosen prompts",
    )
    action.add_argument(
        "--count",
        type=partial(whole_number, at_least=MIN_MEASURED, at_most=_MOST_PROMPTS),
        default=32,
        metavar="N",
        help="prompts to choose (%(default)s)",
    )
    action.add_argument(
        "--seed", type=whole_number, default=0, help="another seed chooses other ones (%(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Import or choose the prompts, and print how many there are."""
    if arguments.action == "choose":
        return _choose(arguments)
    order = ImportOrder(
        source=arguments.source,
        format=arguments.format or field_paths(arguments.map),
        out=arguments.out,
        prompt_class=_name("--class", arguments.prompt_class),
        case=_name("--case", arguments.case) if arguments.case is not None else None,
        max_prompts=arguments.max_prompts,
        seed=arguments.seed,
    )
    print_imported(import_prompts(order, show_progress), order)
    return 0


def _choose(arguments: argparse.Namespace) -> int:
    order = ChoiceOrder(
        forecasts=read_prompt_forecasts(arguments.forecasts),
        prompts=arguments.prompts,
        out=arguments.out,
        prompt_class=_name("--class", arguments.prompt_class),
        parts=arguments.count,
        seed=arguments.seed,
    )
    _print_chosen(choose(order), order)
    return 0


def _print_chosen(traffic: LoggedTraffic, order: ChoiceOrder) -> None:
    print(
        f"{order.case}: {len(traffic.chosen)} of {counted(traffic.prompts, 'prompt')}, "
        f"chosen by tokens and by the forecast of "
        f"{traffic.draft}, window {traffic.window}, with seed {traffic.seed}"
    )
    print(
        "note: long answers are chosen more often than short ones, so only `draftworth report RUN "
        f"--traffic {order.traffic_file}` says what the log's prompts cost"
    )


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
            f"not written: {sample.repeats:,} that repeat one of these, and {sample.not_drawn:,} "
            "that were not drawn"
        )
    print(f"{counted(imported.records, 'record')} read with seed {order.seed}")
    print(left_out_words(imported.left_out))
    for reason, records in imported.notes.items():
        print(f"note: {records.count:,} {reason} (the first: {records.first})")
    for line in _provenance(imported):
        print(f"note: {line}")
    if most := max(sample.most_tokens for sample in imported.samples.values()):
        print(
            f"note: prompts have max_tokens of their own, up to {most:,}: workload.output_tokens "
            "must be at least that"
        )
    print(
        "note: people wrote these texts, and a deploy uploads them: remove those that you must not "
        "pass on; a public set has a licence of its own (docs/prompts.md)"
    )


def _provenance(imported: Imported) -> Iterator[str]:
    """Yield which models the log names, and when its requests were asked."""
    if imported.models:
        names = [f"{name} ({count:,})" for name, count in imported.models.most_common(_MOST_MODELS)]
        further = ", ..." if len(imported.models) > _MOST_MODELS else ""
        yield f"the models of these requests: {', '.join(names)}{further}"
    if imported.times:
        first, last = (time.date().isoformat() for time in (imported.times[0], imported.times[-1]))
        yield f"asked on {first}" if first == last else f"asked from {first} to {last}"
