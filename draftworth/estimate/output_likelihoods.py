"""Checks whether a run's outputs come from the target, by their likelihood under a model.

docs/appendix/forecasts.md has the three checks. If a token is sampled from the target's
distribution p, log p(token) + the entropy of p has the mean 0, whatever the tokens before it are,
and its variance follows from p. So sums over many tokens are nearly normally distributed (Brown
1971 proves it for such dependent terms). The variance of the sum is the sum of the outputs'
variances, because a correct sampler draws all outputs independently, also those to the same prompt.
It is not estimated from the differences between prompts, because with few prompts even noise could
then pass the check (tests/draftworth/estimate/test_output_likelihoods.py).

The check with a draft model is made for each prompt class by itself. Under a draft model, wrong
outputs (noise) are less likely than texts like those that the draft was trained on, but more likely
than other texts, so in a sum over classes the differences could cancel.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from draftworth.analysis.likelihood_check import FALSE_ALARMS, judged
from draftworth.analysis.spread import MIN_PROMPTS
from draftworth.analysis.statistics import at_least
from draftworth.analysis.student_t import student_t
from draftworth.errors import DraftworthError
from draftworth.estimate.model_folders import can_read, printed_path
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.estimate.target_outputs import TargetOutputs, all_outputs, outputs_of_blocks
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.records import likelihoods
from draftworth.records.codec import dump_record
from draftworth.records.readings import Output, Reading
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcripts
from draftworth.report.reason_sentences import answers_words
from draftworth.safe_writing import write_file

# At most this share of a correct server's greedy outputs has a token that is less likely than the
# target's most likely one by more than `NEAR_TIE_NATS`. The share is above 0, because the server
# and the model in this check round differently.
RIGHT_BEYOND = 0.05


def check_outputs(
    experiment: ResolvedExperiment,
    source: TargetOutputs,
    reader: Reader,
    draft: Path,
    *,
    progress: Callable[[str], None],
) -> None:
    """Check that a run's outputs are the target's, and write the result into the run's folder.

    The target model reads the outputs; if its weights are missing or do not fit into memory, the
    draft model in the folder `draft` reads them. Errors go to `progress` only, because the estimate
    is complete without the check. Nothing is checked if the outputs are not from a run.
    """
    if source.run is None:
        return
    by_target = can_read(reader.target)
    # An earlier check with the target is kept, because it is stronger than a check with a draft.
    if not by_target and any(
        not isinstance(f, likelihoods.DraftLikelihood) for f in source.run.likelihoods
    ):
        return
    check = checks_by_target if by_target else partial(_checks_by_draft, draft=draft)
    try:
        checks = tuple(check(experiment, source.run, source.transcripts, reader))
        for one_check in checks:
            nothing = f"{one_check.variant}: nothing shows that its answers are not the target's"
            progress(answers_words(judged(one_check)) or nothing)
        if checks and source.folder:
            path = source.folder / likelihoods.LIKELIHOODS_FILE
            record = likelihoods.Likelihoods(run_id=source.run.result.run_id, likelihoods=checks)
            write_file(path, dump_record(record, indent=2))
            progress(f"written to {path}, which `report` shows")
    except (DraftworthError, OSError) as error:
        progress(f"whose answers the run has is not told: {error}")


def checks_by_target(
    experiment: ResolvedExperiment, run: Run, transcripts: Transcripts, reader: Reader
) -> Iterator[likelihoods.ModelsCheck]:
    """Yield how likely each variant's outputs are under the target model.

    DraftworthError: the target's forward pass over the outputs failed.
    """
    check = likelihood_of if run.result.temperature else greedy_likelihood_of
    for variant, outputs in _outputs(experiment, run, transcripts).items():
        readings = reader.readings(
            reader.target,
            outputs,
            # Sampled outputs are checked at the run's temperature, greedy outputs at 1.
            temperature=run.result.temperature or 1.0,
            fixed_length=experiment.spec.workload.fixed_output_length,
        )
        if likelihood := check(variant, readings):
            yield likelihood


def _checks_by_draft(
    experiment: ResolvedExperiment, run: Run, transcripts: Transcripts, reader: Reader, draft: Path
) -> Iterator[likelihoods.DraftLikelihood]:
    fixed = experiment.spec.workload.fixed_output_length
    read = partial(reader.readings, draft, fixed_length=fixed)
    outputs = _outputs(experiment, run, transcripts)
    plain = outputs.pop(run.result.baseline, [])
    differing = {
        name: of_variant
        for name, of_variant in outputs.items()
        if _texts(of_variant) != _texts(plain)
    }
    baseline = read(plain) if plain and differing else []
    for variant, of_variant in differing.items():
        yield from draft_likelihoods_of(
            variant, read(of_variant), baseline, draft=printed_path(draft)
        )


def _outputs(
    experiment: ResolvedExperiment, run: Run, transcripts: Transcripts
) -> dict[str, list[Output]]:
    # Greedy servers repeat their outputs, so the first output to each prompt is enough.
    outputs_of = all_outputs if run.result.temperature else outputs_of_blocks
    by_variant = {
        variant: [*outputs_of(run.blocks, transcripts, experiment.cases, variant=variant)]
        for variant in run.result.variants
    }
    return {variant: outputs for variant, outputs in by_variant.items() if outputs}


def _texts(outputs: Sequence[Output]) -> set[tuple[object, ...]]:
    return {(o.prompt_class, o.case, o.prompt_id, o.token_ids or o.text) for o in outputs}


def likelihood_of(variant: str, readings: Sequence[Reading]) -> likelihoods.Likelihood | None:
    """Return how likely a variant's sampled outputs are under the target model.

    readings: for each output, how likely its tokens are under the target.
    None: there is no output, or the target would sample each token with probability 1.
    """
    variance = math.fsum(r.variance for r in readings)
    if variance <= 0:
        return None
    surplus, tokens = math.fsum(r.log_likelihood + r.entropy for r in readings), _tokens(readings)
    return likelihoods.Likelihood(
        variant=variant,
        outputs=len(readings),
        tokens=tokens,
        deviation=surplus / math.sqrt(variance),
        per_token=surplus / tokens,
    )


def greedy_likelihood_of(
    variant: str, readings: Sequence[Reading]
) -> likelihoods.GreedyLikelihood | None:
    """Return how likely a variant's first greedy output to each prompt is under the target.

    readings: for each output, how far its tokens are from the target's most likely ones.
    None: there is no output.
    """
    firsts = [*{_prompt(r): r for r in reversed(readings)}.values()]
    if not firsts:
        return None
    beyond = sum(r.farthest > likelihoods.NEAR_TIE_NATS for r in firsts)
    return likelihoods.GreedyLikelihood(
        variant=variant,
        outputs=len(firsts),
        tokens=_tokens(firsts),
        beyond=beyond,
        farthest=max(r.farthest for r in firsts),
        chance=at_least(beyond, len(firsts), RIGHT_BEYOND),
    )


def draft_likelihoods_of(
    variant: str, readings: Sequence[Reading], baseline: Sequence[Reading], *, draft: str
) -> list[likelihoods.DraftLikelihood]:
    """Return how likely a variant's outputs are under a draft model, compared with the baseline's.

    The result has one comparison for each prompt class.
    readings, baseline: how likely the tokens of each output of the variant, and of the baseline,
    are under the draft model. draft: the model's name or folder, for the record.
    """
    of_variant, of_baseline = _by_prompt(readings), _by_prompt(baseline)
    differences: defaultdict[str, list[float]] = defaultdict(list)
    for prompt in sorted(of_variant.keys() & of_baseline.keys()):
        differences[prompt[0]].append(of_variant[prompt] - of_baseline[prompt])
    false_alarms = FALSE_ALARMS / max(1, len(differences))
    likelihoods_by_class = []
    for name, values in differences.items():
        count, mean = len(values), statistics.fmean(values)
        half = None
        if count >= MIN_PROMPTS:
            t = student_t(1 - false_alarms / 2, count - 1)
            half = t * statistics.stdev(values) / math.sqrt(count)
        likelihoods_by_class.append(
            likelihoods.DraftLikelihood(
                variant=variant,
                prompt_class=name,
                draft=draft,
                prompts=count,
                outputs=sum(r.prompt_class == name and _prompt(r) in of_baseline for r in readings),
                difference=mean,
                low=None if half is None else mean - half,
                high=None if half is None else mean + half,
            )
        )
    return likelihoods_by_class


def _by_prompt(readings: Iterable[Reading]) -> dict[tuple[str, str, str], float]:
    by_prompt: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for reading in readings:
        by_prompt[_prompt(reading)].append(reading.log_likelihood / _tokens([reading]))
    return {prompt: statistics.fmean(values) for prompt, values in by_prompt.items()}


def _prompt(reading: Reading) -> tuple[str, str, str]:
    return reading.prompt_class, reading.case, reading.prompt_id


def _tokens(readings: Iterable[Reading]) -> int:
    return sum(len(r.hits) + 1 for r in readings)
