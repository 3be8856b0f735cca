"""`draftworth estimate`: what a draft would yield and save, before a device exists.

The target's own outputs, of a past run or a log, are read once by each draft on this machine's CPU
(`pods/teacher_forcing`, in the engine's environment); from what it would have said come the tokens
per step of every window, and with the cost of a step what a token costs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from draftworth.cli.arguments import whole_number
from draftworth.errors import DraftworthError, UserInputError
from draftworth.estimating.card import costs_by_load
from draftworth.estimating.document import document_of
from draftworth.estimating.estimate import DraftEstimate, estimate_of, json_lines
from draftworth.estimating.forecast import PriorStepCosts, Range, StepCosts
from draftworth.estimating.outputs import check_classes, check_lengths
from draftworth.estimating.predictions import predictions_of
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import beside
from draftworth.experiment.variants import LocalSpeculative, Speculative
from draftworth.planning.prices import with_looked_up_price
from draftworth.planning.resolved import (
    ResolvedExperiment,
    ResolvedLocal,
    ResolvedNeuron,
    load,
)
from draftworth.records.codec import dump_record
from draftworth.records.findings import StepCostCard, read_step_costs
from draftworth.records.likelihoods import (
    PREDICTIONS_FILE,
    Prediction,
    Predictions,
    read_predictions,
)
from draftworth.records.readings import Reading
from draftworth.report.document import document_lines
from draftworth.report.writing import write_page
from pods.teacher_forcing.reader import Reader
from rehearsal.answers import Answers, answers_of
from rehearsal.install import install_engine
from rehearsal.likelihoods import check_answers
from rehearsal.model_folders import (
    check_model,
    check_tokenizer,
    model_folder,
    own_drafts,
    own_target,
    shown,
)
from rehearsal.settling import settling, token_prices

WINDOWS = range(1, 16)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment, the outputs, the drafts, where readings are kept."""
    parser.add_argument("experiment", metavar="EXPERIMENT", type=Path, help="an experiment file")
    parser.add_argument(
        "--answers",
        metavar="PLACE",
        help="a past run (folder or s3://BUCKET/PREFIX): its baseline's outputs are read; or a "
        "folder with CLASS/CASE.jsonl of lines {id, text} (default: the answers that `prompts "
        "import` kept beside the experiment's prompts)",
    )
    parser.add_argument(
        "--draft",
        metavar="PLACE",
        action="append",
        help="folder of a draft model, or s3://BUCKET/MODEL/REVISION of one that a deploy staged; "
        "may be given several times (default: the experiment's)",
    )
    parser.add_argument(
        "--target",
        metavar="PLACE",
        help="folder with the target's tokenizer, or s3://BUCKET/MODEL/REVISION, of which only the "
        "tokenizer is downloaded (default: the experiment's target, where it is a folder)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("estimates"),
        help="where readings and downloaded checkpoints are kept, so that what was interrupted "
        "goes on (%(default)s)",
    )
    parser.add_argument(
        "--card",
        metavar="PATH",
        type=Path,
        help="step-cost card of a run, anybody's: step_costs.json or the run's folder (default: "
        "what is published of the method, as a range)",
    )
    parser.add_argument(
        "--tokens-per-day",
        metavar="N",
        type=partial(whole_number, at_least=1, at_most=10**15),
        help="output tokens of your service a day: for what the draft can save, in USD where a "
        "price and the baseline's speed on such servers are known",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        type=Path,
        help="write the same as a page with plots, in one file, beside what is printed",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--engine",
        metavar="DIR",
        type=Path,
        default=Path(".engine-venv"),
        help="where torch and transformers are, or get installed (%(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read what is not read yet, and print the forecast."""
    experiment = load(arguments.experiment)
    if isinstance(experiment, ResolvedNeuron):
        experiment = with_looked_up_price(experiment)
    estimates = list(_estimates(experiment, arguments))
    document = document_of(experiment.name, estimates)
    if arguments.html:
        write_page(document, arguments.html)
    lines = json_lines(estimates) if arguments.json else document_lines(document)
    print(*lines, sep="\n")  # noqa: T201
    return 0


def _estimates(
    experiment: ResolvedNeuron | ResolvedLocal, arguments: argparse.Namespace
) -> Iterator[DraftEstimate]:
    """Of each draft at each load of the card; what is wrong is said before the first pass."""
    method, windows = _method(experiment)
    card = read_step_costs(arguments.card) if arguments.card else None
    step_costs = _step_costs(card, method)
    prices = token_prices(experiment, card) if card else {}
    target = _target(experiment, arguments.target, arguments.out)
    answers = answers_of(experiment, arguments.answers)
    weights = {c.name: c.weight for c in experiment.spec.workload.classes}
    check_classes(weights, answers.outputs)
    # Last: what is downloaded may be large.
    drafts = _drafts(experiment, arguments.draft, arguments.out)
    reader = Reader(
        python=install_engine(arguments.engine, progress=_progress),
        target=target,
        folder=arguments.out,
        enable_thinking=experiment.spec.workload.enable_thinking,
    )
    predicted: list[Prediction] = []
    for draft in drafts:
        readings = reader.readings(draft, answers.outputs)
        check_lengths(weights, readings)
        measured = tuple(_measured(experiment, answers, draft, readings))
        predicted += measured
        for costs in step_costs:
            found = estimate_of(
                experiment.spec.target.given,
                shown(draft),
                readings,
                weights,
                windows=windows,
                step_costs=costs,
            )
            price = prices.get(costs.load or "")
            told = settling(
                experiment, found.answer, price=price, tokens_per_day=arguments.tokens_per_day
            )
            yield replace(found, predictions=measured, settling=tuple(told))
    _keep(predicted, answers)
    check_answers(experiment, answers, reader, drafts[0], progress=_progress)


def _keep(predicted: Sequence[Prediction], answers: Answers) -> None:
    """Beside a run on this machine, whose report shows them; those of other drafts stay."""
    if not predicted or answers.folder is None or answers.run is None:
        return
    run_id, path = answers.run.result.run_id, answers.folder / PREDICTIONS_FILE
    variants = {prediction.variant for prediction in predicted}
    try:
        others = [p for p in read_predictions(answers.folder, run_id) if p.variant not in variants]
        record = Predictions(run_id=run_id, predictions=(*others, *predicted))
        path.write_bytes(dump_record(record, indent=2))
    except (DraftworthError, OSError) as error:
        _progress(f"{path}: predictions are not kept: {error}")
        return
    _progress(f"predictions are in {path}, which `report` shows")


def predict(experiment: ResolvedLocal, run_folder: Path, reader: Reader) -> tuple[Prediction, ...]:
    """What each draft's pass over the baseline's outputs predicts, beside what a run measured.

    Raises:
        DraftworthError: the outputs cannot be read.
    """
    answers = answers_of(experiment, str(run_folder))
    return tuple(
        found
        for draft in own_drafts(experiment)
        for found in _measured(experiment, answers, draft, reader.readings(draft, answers.outputs))
    )


def _target(experiment: ResolvedNeuron | ResolvedLocal, place: str | None, below: Path) -> Path:
    """The folder with the target's tokenizer; of a staged checkpoint no weights are downloaded."""
    given_by = "--target" if place else f"{experiment.path}: target.path"
    folder = (
        own_target(experiment)
        if place is None
        else (model_folder(place, below, needs_weights=False, say=_progress))
    )
    check_tokenizer(folder, given_by=given_by)
    return folder


def _drafts(
    experiment: ResolvedNeuron | ResolvedLocal, places: Sequence[str] | None, below: Path
) -> Sequence[Path]:
    """The folders of the drafts."""
    given_by = "--draft" if places else f"{experiment.path}: draft.path"
    folders = (
        own_drafts(experiment)
        if places is None
        else [model_folder(place, below, needs_weights=True, say=_progress) for place in places]
    )
    for folder in folders:
        check_model(folder, given_by=given_by)
    return folders


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _method(experiment: ResolvedExperiment) -> tuple[str, Mapping[int, int]]:
    """The experiment's method, and of each window the drafts that a step checks."""
    variants = [v.spec for v in experiment.variants if isinstance(v.spec, Speculative)]
    facts = catalog()
    for variant in variants:
        if facts.methods[variant.method].draft != "causal_lm":
            raise UserInputError(
                f"{experiment.path}: variants: {variant.name}: method: given {variant.method}, "
                "allowed: a draft model (fused_draft, draft_model), because EAGLE and DFlash "
                "heads read the target's hidden states, which no text holds; next: measure it"
            )
    method = variants[0].method
    served = experiment.spec.release_facts.methods[method]
    asked = {*WINDOWS, *(variant.window for variant in variants)}
    windows = sorted(w for w in asked if w >= served.min_window)
    return method, {w: served.max_tokens_per_step(w) - 1 for w in windows}


def _measured(
    experiment: ResolvedExperiment, answers: Answers, draft: Path, readings: Sequence[Reading]
) -> Iterator[Prediction]:
    """What the run's own servers did with this draft; nothing where outputs are of no run."""
    # Two answers that were sampled differ, and so do their steps.
    if answers.run is None or answers.run.result.temperature:
        return
    checked = {
        variant.name: most - 1
        for variant in experiment.variants
        if isinstance(variant.spec, LocalSpeculative)
        and beside(experiment.path, variant.spec.draft.path) == Path(os.path.realpath(draft))
        and (most := answers.run.result.max_tokens_per_step.get(variant.name))
    }
    yield from predictions_of(answers.run, answers.transcripts, readings, checked)


def _step_costs(card: StepCostCard | None, method: str) -> Sequence[StepCosts]:
    """Of each load of the card; without one, what is published."""
    if card is not None:
        return [*costs_by_load(card, method).values()]
    low, high = catalog().methods[method].step_cost_per_draft or (0.0, 0.0)
    source = f"published for {method}: each drafted token adds {low:g} to {high:g} of a step"
    return [PriorStepCosts(per_drafted_token=Range(low=low, high=high), source=source)]
