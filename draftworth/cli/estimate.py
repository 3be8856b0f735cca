"""`draftworth estimate` forecasts what a draft, or n-gram drafting, would yield and save.

On this machine's CPU, each draft model predicts the target's outputs of a past run or a log. The
results (readings) give the tokens per step of every window and, with step costs, a token's cost.
N-gram drafting needs no model, so it is estimated first: a draft model must beat it.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from draftworth.analysis.acceptance import acceptance_of
from draftworth.analysis.costs import hit_rate
from draftworth.cli import engine_installer, install_words
from draftworth.cli.arguments import S3_SCHEME, local_run, of_record, whole_number
from draftworth.cli.estimate_next_steps import TokenPrice, token_prices, with_next_steps
from draftworth.cli.estimate_profile import estimates_by_profile, profile_of
from draftworth.errors import UserInputError
from draftworth.estimate import output_likelihoods, predictions, replayed_run, target_outputs
from draftworth.estimate.by_prompt import prompt_forecasts, write_prompt_forecasts
from draftworth.estimate.estimate_document import document_of, json_text
from draftworth.estimate.forecast import WINDOWS, DraftEstimate, windows_of
from draftworth.estimate.model_folders import check_model, check_tokenizer, printed_path
from draftworth.estimate.profile_forms import write_profile
from draftworth.estimate.prompt_lookup import LookupLengths, looked_up, tokens_per_step
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.estimate.run_tokenizing import TargetTokenizer
from draftworth.estimate.step_cost_sources import step_costs_of
from draftworth.experiment.catalog import NGRAM, catalog
from draftworth.experiment.model import beside
from draftworth.experiment.naming import CHECKPOINTS_OUTPUT
from draftworth.experiment.variants import HubModel
from draftworth.planning.prices import with_looked_up_price
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal, ResolvedNeuron, load
from draftworth.records import step_costs
from draftworth.records.allowed_steps import VariantSteps
from draftworth.report.document import document_lines
from draftworth.report.writing import write_page

# N-gram drafting is estimated with each of these shortest and longest n-grams to look up. Only the
# estimate with the most tokens per step at the window `LOOKUP_WINDOW` is shown.
LOOKUPS = tuple(LookupLengths(shortest, 4) for shortest in range(1, 5))
LOOKUP_WINDOW = 5
_TO_BEAT = "A draft model must beat {tokens:.2f} tokens per step (window {window}, your traffic)."
_NOT_SERVED = (
    "No image for Neuron serves it, so it saves nothing there; a vLLM of your own serves it, and "
    "`draftworth compare` measures it."
)

# The options that need outputs, which an acceptance profile does not have.
_OF_OUTPUTS = ("answers", "draft", "target", "profile", "by_prompt")
_BUCKET = f"(BUCKET: the stack's output {CHECKPOINTS_OUTPUT})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the experiment file, the target's outputs, draft models, and options."""
    add = parser.add_argument
    add("experiment", metavar="EXPERIMENT", type=Path, help="an experiment file")
    add(
        "--answers",
        metavar="PLACE",
        type=of_record,
        help="a past run (folder or s3://BUCKET/PREFIX): its baseline's outputs are read; or a "
        "folder with CLASS/CASE.jsonl of lines {id, text} (default: the answers that `prompts "
        "import` kept beside the experiment's prompts)",
    )
    add(
        "--acceptance",
        metavar="FILE",
        type=Path,
        help="an acceptance profile of any draft or head, instead of answers and models",
    )
    add(
        "--draft",
        metavar="PLACE",
        action="append",
        help="folder of a draft model, or s3://BUCKET/MODEL/REVISION of one that a deploy staged; "
        "may be given several times (default: the experiment's)",
    )
    add(
        "--target",
        metavar="PLACE",
        help="folder with the target's tokenizer, or s3://BUCKET/MODEL/REVISION, of which only the "
        "tokenizer is downloaded (default: the experiment's target, where it is a folder)",
    )
    add(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("estimates"),
        help="where partial results and downloaded checkpoints are kept, so that an interrupted "
        "command can go on (%(default)s)",
    )
    add(
        "--card",
        metavar="PATH",
        type=Path,
        help="what steps cost: step_costs.json of any run, or the run's folder (default: that of "
        "the run given with --answers; else the range that is published for the method)",
    )
    add(
        "--tokens-per-day",
        metavar="N",
        type=partial(whole_number, at_least=1, at_most=10**15),
        help="output tokens of your service per day: shows what the draft can save, in USD if "
        "price and speed of the baseline are known",
    )
    add("--html", metavar="FILE", type=Path, help="also write a page with plots, in one file")
    add("--json", action="store_true", help="print JSON instead of tables")
    add(
        "--profile",
        metavar="FILE",
        type=Path,
        help="also write an acceptance profile, for `search.forecast` and the command `profile`",
    )
    add(
        "--by-prompt",
        metavar="FILE",
        type=Path,
        help="also write a forecast for each prompt, for `prompts choose`",
    )
    add(
        "--engine",
        metavar="DIR",
        type=Path,
        default=Path(".engine-venv"),
        help="where torch and transformers are, or will be installed (%(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Estimate each draft from the target's outputs or an acceptance profile; print the result."""
    experiment = load(arguments.experiment)
    if isinstance(experiment, ResolvedNeuron):
        experiment = with_looked_up_price(experiment)
    weights = {c.name: c.weight for c in experiment.spec.workload.classes}
    card = step_costs.read_step_costs(arguments.card) if arguments.card else None
    if arguments.acceptance:
        _refuse_outputs(arguments)
        estimates = [*estimates_by_profile(experiment, arguments.acceptance, weights, card)]
    else:
        estimates = _estimates(experiment, arguments, weights, card)
    document = document_of(experiment.name, estimates)
    if arguments.html:
        write_page(document, arguments.html)
    if arguments.json:
        print(json_text(estimates))
    else:
        print(*document_lines(document), sep="\n")
    return 0


def _refuse_outputs(arguments: argparse.Namespace) -> None:
    if useless := [o for o in _OF_OUTPUTS if getattr(arguments, o)]:
        raise UserInputError(
            f"--{useless[0].replace('_', '-')}: given with --acceptance, allowed: without, as no "
            "output is read; next: leave one of the two out"
        )


def _estimates(
    experiment: ResolvedNeuron | ResolvedLocal,
    arguments: argparse.Namespace,
    weights: Mapping[str, float],
    card: step_costs.StepCostCard | None,
) -> list[DraftEstimate]:
    """Return an estimate of n-gram drafting, and one for each draft model and load.

    card: the seconds per step that a run measured at each of its loads, for which the estimates are
    made; None: those of the run that has the outputs or, without such a run, published ones.
    All input is checked before a draft model runs. If n-gram drafting or the draft models cannot be
    estimated, the other estimates are returned and the reason is printed. UserInputError: nothing
    can be estimated, or an option is wrong.
    """
    method = _method(experiment)
    target = _target(experiment, arguments.target, arguments.out)
    source, run_card = _outputs_to_read(experiment, arguments.answers, method or NGRAM)
    card = card or run_card
    prices = token_prices(experiment, card) if card else {}
    target_outputs.check_classes(weights, source.outputs)
    by_position = arguments.profile is not None
    estimates: list[DraftEstimate] = []
    allowed: list[VariantSteps] = []
    try:
        tokenizer = TargetTokenizer(target)
        estimates.append(
            _ngram(experiment, source, tokenizer, weights, card, by_position=by_position)
        )
        allowed += replayed_run.allowed_by_ngram(experiment, source, tokenizer)
    except (UserInputError, ModuleNotFoundError) as error:
        if method is None:
            raise
        _progress(f"n-gram drafting is not estimated: {error}{_tokenizers_next(error)}")
    kept = partial(_kept, experiment, arguments, source, prices, allowed)
    if method is None:
        return kept(estimates)
    windows, all_costs = windows_of(experiment, method), step_costs_of(card, method)
    # The drafts are found last, because their download may be large.
    try:
        drafts = _drafts(experiment, arguments.draft, arguments.out)
    except UserInputError as error:
        if not estimates or arguments.draft:
            raise
        _progress(f"the drafts are not read: {error}")
        return kept(estimates)
    reader = Reader(
        python=_engine(arguments.engine),
        target=target,
        folder=arguments.out,
        enable_thinking=experiment.spec.workload.enable_thinking,
        precision=experiment.reading_precision,
    )
    for draft in drafts:
        readings = reader.readings(draft, source.outputs)
        target_outputs.check_lengths(weights, readings)
        of_draft = partial(
            DraftEstimate,
            target=experiment.spec.target.id_or_path,
            tokenizer=printed_path(target),
            method=method,
            draft=printed_path(draft),
            acceptance=acceptance_of(readings, windows.values(), by_position=by_position),
            weights=weights,
            windows=windows,
            hit_rate=hit_rate(readings),
            predictions=tuple(predictions.compare(experiment, source, draft, readings)),
            replayed=readings,
        )
        estimates += [of_draft(step_costs=costs) for costs in all_costs]
        allowed += replayed_run.allowed_by_draft(experiment, source, draft, reader, readings)
    estimates = kept(estimates)
    output_likelihoods.check_outputs(experiment, source, reader, drafts[0], progress=_progress)
    return estimates


def _tokenizers_next(error: Exception) -> str:
    missing = isinstance(error, ModuleNotFoundError)
    return f"; next: {install_words('estimate')}" if missing else ""


def _kept(
    experiment: ResolvedExperiment,
    arguments: argparse.Namespace,
    source: target_outputs.TargetOutputs,
    prices: Mapping[str, TokenPrice],
    allowed: Sequence[VariantSteps],
    estimates: Sequence[DraftEstimate],
) -> list[DraftEstimate]:
    """Write predicted tokens per step and allowed steps into the folder of the outputs' run.

    With `--profile` and `--by-prompt`, also write these files. Return the estimates, each with
    sentences on what to measure next.

    source: the outputs of the target model, and the run that has them, if any.
    prices: what a token costs without a draft, by the load's label.
    allowed: in which steps the outputs of the run's variants could have been yielded.
    """
    predicted = dict.fromkeys(prediction for one in estimates for prediction in one.predictions)
    predictions.keep_predictions([*predicted], source, progress=_progress)
    replayed_run.keep_allowed_steps(allowed, source, progress=_progress)
    if arguments.profile is not None:
        write_profile(profile_of(experiment, source, estimates), arguments.profile)
    if arguments.by_prompt is not None:
        _check_that_the_draft_was_read(experiment, estimates)
        windows = {window for v in experiment.variants if (window := v.spec.window)}
        write_prompt_forecasts(prompt_forecasts(estimates, windows), arguments.by_prompt)
    return [with_next_steps(experiment, one, prices, arguments.tokens_per_day) for one in estimates]


def _check_that_the_draft_was_read(
    experiment: ResolvedExperiment, estimates: Sequence[DraftEstimate]
) -> None:
    """Raise UserInputError if forecasts would be of n-gram drafting, which no variant has."""
    methods = {v.spec.method for v in experiment.variants if v.spec.window}
    if NGRAM not in methods and all(estimate.method == NGRAM for estimate in estimates):
        raise UserInputError(
            f"--by-prompt: given without --draft, allowed: with the draft of {experiment.path} "
            f"({', '.join(sorted(methods))}), because n-gram drafting says little about other "
            "drafts; next: add --draft DIR"
        )


def _method(experiment: ResolvedExperiment) -> str | None:
    variants = [v.spec for v in experiment.variants if v.draft]
    methods = catalog().methods
    able = ", ".join(name for name, facts in methods.items() if not facts.refuses_estimate)
    for variant in variants:
        if reason := methods[variant.method].refuses_estimate:
            raise UserInputError(
                f"{experiment.path}: variants: {variant.name}: method: given {variant.method}, "
                f"allowed: a draft model ({able}), because {reason}; next: measure it"
            )
    return variants[0].method if variants else None


def _ngram(
    experiment: ResolvedExperiment,
    source: target_outputs.TargetOutputs,
    tokenizer: TargetTokenizer,
    weights: Mapping[str, float],
    card: step_costs.StepCostCard | None,
    *,
    by_position: bool,
) -> DraftEstimate:
    """Return the estimate of n-gram drafting with the lookup lengths that yield the most tokens.

    weights: each class's share of the output tokens.
    card: a run's step costs; those at the first load are used. If it is None or has no n-gram
        drafting, the published range is used.
    by_position: also compute the share of steps that accept the n-th drafted token.
    """
    thinking = experiment.spec.workload.enable_thinking
    shortest = looked_up(source.outputs, tokenizer, LOOKUPS[0], enable_thinking=thinking)
    target_outputs.check_lengths(weights, shortest)
    tried = [[replace(output, lengths=lengths) for output in shortest] for lengths in LOOKUPS]
    tokens = [tokens_per_step(one, weights, checked=LOOKUP_WINDOW) for one in tried]
    most, best = max(zip(tokens, tried, strict=True), key=itemgetter(0))
    to_beat = _TO_BEAT.format(tokens=most, window=LOOKUP_WINDOW)
    is_served = NGRAM in experiment.spec.release_facts.methods
    decodings = card.serving.decoding.values() if card and card.serving else ()
    has_steps = any(decoding.method == NGRAM for decoding in decodings)
    costs, *_ = step_costs_of(card if has_steps else None, NGRAM)
    return DraftEstimate(
        target=experiment.spec.target.id_or_path,
        tokenizer=printed_path(tokenizer.folder),
        method=NGRAM,
        draft=f"n-gram drafting, {best[0].lengths} tokens looked up",
        acceptance=acceptance_of(best, WINDOWS, by_position=by_position),
        weights=weights,
        windows={window: window for window in WINDOWS},
        step_costs=costs,
        predictions=tuple(predictions.compare_ngram(experiment, source, tokenizer)),
        settling=(to_beat,) if is_served else (to_beat, _NOT_SERVED),
        replayed=best,
    )


def _outputs_to_read(
    experiment: ResolvedExperiment, place: str | None, method: str
) -> tuple[target_outputs.TargetOutputs, step_costs.StepCostCard | None]:
    if place is None:
        return target_outputs.read_target_outputs(experiment, None), None
    with local_run(place) as folder:
        source = target_outputs.read_target_outputs(experiment, folder)
        card = _card_of_run(folder, method) if source.run else None
        return replace(source, folder=None) if place.startswith(S3_SCHEME) else source, card


def _card_of_run(run: Path, method: str) -> step_costs.StepCostCard | None:
    try:
        card = step_costs.read_step_costs(run)
        step_costs_of(card, method)
    except UserInputError as error:
        _progress(f"the run's own step costs are not used: {error}")
        return None
    return card


def _target(experiment: ResolvedNeuron | ResolvedLocal, place: str | None, out: Path) -> Path:
    if place is not None:
        folder = _model_folder(place, out, needs_weights=False)
    elif isinstance(experiment, ResolvedLocal):
        folder = beside(experiment.path, experiment.spec.target.path)
    else:
        raise UserInputError(
            f"{experiment.path}: its target is a model of the hub; next: download its tokenizer "
            "(tokenizer.json, tokenizer_config.json, chat template) and give the folder "
            "(--target DIR), or where a deploy staged it: --target "
            f"{_staged(experiment.spec.target)} {_BUCKET}"
        )
    check_tokenizer(folder, option="--target" if place else f"{experiment.path}: target.path")
    return folder


def _drafts(
    experiment: ResolvedNeuron | ResolvedLocal, places: Sequence[str] | None, out: Path
) -> Sequence[Path]:
    if places is not None:
        folders = [_model_folder(place, out, needs_weights=True) for place in places]
    elif isinstance(experiment, ResolvedLocal):
        folders = predictions.draft_folders(experiment)
    else:
        models = (variant.checkpoints.get("draft") for variant in experiment.variants)
        drafts = dict.fromkeys(f"--draft {_staged(model)}" for model in models if model)
        raise UserInputError(
            f"{experiment.path}: its drafts are models of the hub; next: give the folder of a "
            f"downloaded one (--draft DIR), or where a deploy staged them: {' '.join(drafts)} "
            f"{_BUCKET}"
        )
    for folder in folders:
        check_model(folder, option="--draft" if places else f"{experiment.path}: draft.path")
    return folders


def _model_folder(place: str, out: Path, *, needs_weights: bool) -> Path:
    if not place.startswith(S3_SCHEME):
        return Path(place)
    # Imported only for a checkpoint in S3, because it loads boto3.
    from draftworth.account.s3_downloads import download_checkpoint

    checkpoints = out / "checkpoints"
    return download_checkpoint(place, checkpoints, needs_weights=needs_weights, say=_progress)


def _engine(folder: Path) -> Path:
    try:
        install_engine = engine_installer()
    except ModuleNotFoundError as error:
        python = folder / "bin" / "python"
        if not python.is_file():
            raise UserInputError(
                f"--engine: given {folder}, allowed outside of a checkout: a virtual environment "
                f"with torch and transformers; next: `python -m venv {folder}`, and "
                f"`{folder}/bin/pip install torch transformers`"
            ) from error
        return python
    return install_engine(folder, progress=_progress)


def _staged(model: HubModel) -> str:
    return f"{S3_SCHEME}BUCKET/{model.storage_prefix}"


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
