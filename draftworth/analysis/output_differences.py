"""Finds where greedy outputs differ from the baseline's, and whether rounding explains that.

Outputs are compared by token ids if both transcripts have them, else by text. Rounding can make the
outputs of two correct servers differ. So a variant is compared on each prompt with the control,
which is the baseline on a second server: by how many of its outputs equal the baseline's, and by
the share of each output before its first difference from the baseline's.
docs/decisions/0025-whose-answers.md says what rounding can change, and what it cannot.
"""

import hashlib
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise

from draftworth.analysis.likelihood_check import FALSE_ALARMS, AnswersCheck, DiffersSooner
from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.analysis.statistics import CONFIDENCE, Estimate, at_least, interval_of
from draftworth.analysis.student_t import student_t
from draftworth.analysis.summary import groups_of
from draftworth.records.load_shapes import Load
from draftworth.records.results import CONTROL, BlockResult
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript, Transcripts

CONTEXT_CHARACTERS = 40
SHA256_OF_NOTHING = hashlib.sha256().hexdigest()
# A variant's outputs are shown to be nearly as like the baseline's as the control's outputs are if
# the intervals of both differences in `Likeness` (variant - control) lie above minus this margin.
LIKENESS_MARGIN = 0.1


class BesideControl(Enum):
    """How a variant's outputs differ from the baseline's, compared with the control's outputs."""

    AS_ALIKE = auto()
    """They are shown to be nearly as like the baseline's as the control's are."""
    DIFFERS_MORE = auto()
    """They are shown to differ more."""
    NOT_KNOWN = auto()


@dataclass(frozen=True, kw_only=True)
class OutputPair:
    """The comparison of two outputs of one prompt.

    kept: the share (0 to 1) of the longer output that precedes the first difference, 1 if the
        outputs are identical; None: there are no texts.
    tokens: number of tokens up to and including the first difference, or of all tokens if the
        outputs are identical; None: there are no token ids.
    """

    prompt: str
    identical: bool
    kept: float | None
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """Compares how much a variant's outputs, and the control's, are like the baseline's.

    The control is the baseline on a second server, so its outputs show what rounding changes.

    control_identical: number of the `control_compared` outputs of the control that equal the
        baseline's.
    identical_share: the share of the variant's outputs that equal the baseline's, minus the same
        share of the control's.
    kept_share: the mean share of the variant's outputs before the first difference
        (`OutputPair.kept`), minus the same mean of the control's; None: not known.
    """

    control_identical: int
    control_compared: int
    identical_share: Estimate
    kept_share: Estimate | None

    @property
    def beside_control(self) -> BesideControl:
        ends = [interval_of(e) for e in (self.identical_share, self.kept_share) if e]
        if any(end and end[1] < 0 for end in ends):
            return BesideControl.DIFFERS_MORE
        alike = all(end and end[0] > -LIKENESS_MARGIN for end in ends)
        return BesideControl.AS_ALIKE if alike else BesideControl.NOT_KNOWN


def output_pairs(pairs: Iterable[Pair], transcripts: Transcripts) -> list[OutputPair]:
    """Compare the baseline's and the variant's output of each pair of requests.

    Pairs with nothing to compare are left out: their outputs are not known, or both are empty.
    """
    return [output for pair in pairs if (output := _output_pair(pair, transcripts))]


def _output_pair(pair: Pair, transcripts: Transcripts) -> OutputPair | None:
    ours, theirs = _texts(pair, transcripts)
    prompt = f"{pair.place.stratum}\n{pair.place.prompt}"
    if ours and theirs and ours.token_ids and theirs.token_ids:
        alike, longest = _alike(ours.token_ids, theirs.token_ids)
        return OutputPair(
            prompt=prompt,
            identical=alike == longest,
            kept=alike / longest,
            tokens=min(alike + 1, longest),
        )
    hashes = pair.plain.output_sha256, pair.drafted.output_sha256
    # Two empty texts show nothing: the text may be in a field of the answer that is not read.
    if not all(hashes) or {*hashes} == {SHA256_OF_NOTHING}:
        return None
    identical, kept = hashes[0] == hashes[1], None
    if ours and theirs and (ours.text or theirs.text):
        alike, longest = _alike(ours.text, theirs.text)
        kept = alike / longest
    return OutputPair(prompt=prompt, identical=identical, kept=1.0 if identical else kept)


def _texts(pair: Pair, transcripts: Transcripts) -> tuple[Transcript | None, Transcript | None]:
    return transcripts.get(pair.plain.request_id), transcripts.get(pair.drafted.request_id)


def _alike(one: Sequence[object], other: Sequence[object]) -> tuple[int, int]:
    return first_difference(one, other), max(len(one), len(other))


def likeness(outputs: Sequence[OutputPair], control: Sequence[OutputPair]) -> Likeness | None:
    """Compare how much a variant's outputs, and the control's, are like the baseline's.

    outputs: the variant's outputs, compared with the baseline's. control: those of the control (the
    baseline on a second server). None if no prompt is in both.
    """
    shares = _difference(
        [(o.prompt, float(o.identical)) for o in outputs],
        [(o.prompt, float(o.identical)) for o in control],
    )
    if shares is None:
        return None
    return Likeness(
        control_identical=sum(o.identical for o in control),
        control_compared=len(control),
        identical_share=shares,
        kept_share=_difference(
            [(o.prompt, o.kept) for o in outputs if o.kept is not None],
            [(o.prompt, o.kept) for o in control if o.kept is not None],
        ),
    )


def _difference(
    values: Sequence[tuple[str, float]], control: Sequence[tuple[str, float]]
) -> Estimate | None:
    """Return the mean over prompts of (value - control's value); None: no prompt is in both.

    For the interval, two prompts with differences of 1 and -1 are added (Bonett and Price 2012,
    "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired
    Data"), so that the interval of a few prompts without differences has a width above 0.
    values, control: (prompt, value) of each output of the variant and of the control, from 0 to 1.
    """
    by_prompt, control_by_prompt = _by_prompt(values), _by_prompt(control)
    differences = [
        by_prompt[prompt] - control_by_prompt[prompt]
        for prompt in by_prompt.keys() & control_by_prompt.keys()
    ]
    if not differences:
        return None
    widened = [*differences, 1.0, -1.0]
    count = len(widened)
    error = statistics.pstdev(widened) / math.sqrt(count)
    half = error * student_t(0.5 + CONFIDENCE / 2, count - 1)
    middle = math.fsum(widened) / count
    return Estimate(
        value=math.fsum(differences) / len(differences),
        low=max(-1.0, middle - half),
        high=min(1.0, middle + half),
        prompts=len(differences),
        blocks=0,
        samples=len(values),
    )


def _by_prompt(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    by_prompt: dict[str, list[float]] = {}
    for prompt, value in values:
        by_prompt.setdefault(prompt, []).append(value)
    return {prompt: statistics.fmean(of_prompt) for prompt, of_prompt in by_prompt.items()}


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A pair of outputs whose texts differ, with 40 characters of both from the difference on.

    prompt: the prompt's id. token: the number of the baseline's output tokens before the streamed
        chunk that differs; None: not known.
    character: the index of the first character that differs.
    """

    prompt: str
    token: int | None
    character: int
    baseline_text: str
    variant_text: str


def divergences(pairs: Iterable[Pair], transcripts: Transcripts) -> tuple[Divergence, ...]:
    """Return every pair whose transcripts have different texts, the earliest difference first."""
    differing = []
    for pair in pairs:
        ours, theirs = _texts(pair, transcripts)
        if ours and theirs and ours.text != theirs.text:
            at = first_difference(ours.text, theirs.text)
            end = at + CONTEXT_CHARACTERS
            differing.append(
                Divergence(
                    prompt=pair.plain.prompt_id,
                    token=ours.tokens_before(at),
                    character=at,
                    baseline_text=ours.text[at:end],
                    variant_text=theirs.text[at:end],
                )
            )
    return tuple(sorted(differing, key=lambda d: (d.character, d.prompt)))


def first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the index of the first difference; the shorter length if one starts with the other."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def tokens_before(divergences: Sequence[Divergence]) -> tuple[int, int] | None:
    """Return the fewest and the median number of output tokens before a difference.

    None if the number (`Divergence.token`) is known for no divergence.
    """
    tokens = [d.token for d in divergences if d.token is not None]
    return (min(tokens), statistics.median_high(tokens)) if tokens else None


# The highest rate at which the outputs of two correct servers begin to differ by rounding alone:
# first differences / tokens up to them. In most measured outputs of 128 tokens it was 1% to 2%.
ROUNDING_PER_TOKEN = 0.05


def partings(
    run: Run, control: Sequence[BlockResult], transcripts: Transcripts, *, but: Collection[str]
) -> Iterator[AnswersCheck]:
    """Yield, for each variant and load, whether greedy outputs are shown not to be the target's.

    It is shown if a variant's outputs differ from the baseline's after fewer tokens than those of
    two correct servers. These are the baseline and the control (the baseline on a second server)
    or, without a control, the baseline and itself, where a prompt was sent to it twice. Nothing is
    yielded if there are neither, or if outputs are sampled.
    run: without its control. control: all blocks of the control's rounds. but: variants to skip.
    """
    baseline = run.result.baseline
    loads = _loads(run)
    for variant in run.result.variants if not run.result.temperature else ():
        for load, classes in loads.items() if variant not in {baseline, *but} else ():
            traffic = Traffic(weights=classes, load=load)
            pairs = counting(paired(run.blocks, traffic, variant=variant, baseline=baseline))
            equals = counting(paired(control, traffic, variant=CONTROL, baseline=baseline))
            outputs = _first_of_each(output_pairs(pairs, transcripts))
            of_control = _first_of_each(output_pairs(equals, transcripts))
            floor = of_control or _first_of_each(output_pairs(_repeats(pairs), transcripts))
            if outputs.keys() & floor.keys():
                is_sooner = _is_sooner(outputs, floor, alarms=FALSE_ALARMS / len(loads))
                evidence = DiffersSooner(
                    load=load,
                    outputs=len(outputs),
                    differing=sum(not pair.identical for pair in outputs.values()),
                    tokens=sum(pair.tokens or 0 for pair in outputs.values()),
                    of_control=bool(of_control),
                    rounding_share=ROUNDING_PER_TOKEN,
                )
                yield AnswersCheck(
                    variant=variant,
                    is_the_targets=not is_sooner,
                    evidence=evidence if is_sooner else None,
                )


def _is_sooner(
    outputs: Mapping[str, OutputPair], floor: Mapping[str, OutputPair], *, alarms: float
) -> bool:
    """Return whether outputs differ sooner than correct servers' do, and than rounding explains.

    outputs: by prompt, the comparison of the baseline's output with the variant's. floor: by
    prompt, the comparison of two outputs of correct servers. alarms: the share (0 to 1) of correct
    servers for which True may be returned by chance.
    """
    differing = sum(not pair.identical for pair in outputs.values())
    tokens = sum(pair.tokens or 0 for pair in outputs.values())
    both = [
        (_place(outputs[prompt]), _place(floor[prompt])) for prompt in outputs.keys() & floor.keys()
    ]
    sooner, later = sum(o < f for o, f in both), sum(o > f for o, f in both)
    beside_floor = at_least(sooner, sooner + later, 0.5)
    return max(beside_floor, at_least(differing, tokens, ROUNDING_PER_TOKEN)) <= alarms


def _loads(run: Run) -> dict[Load, dict[str, float]]:
    classes_by_load: dict[Load, dict[str, float]] = {}
    for group in groups_of(run.blocks):
        classes_by_load.setdefault(group.load, {})[group.prompt_class] = 1.0
    return classes_by_load


def _first_of_each(outputs: Iterable[OutputPair]) -> dict[str, OutputPair]:
    """Return, by prompt, its first comparison that was made by token ids.

    Further outputs of a prompt show nothing new, because a greedy server repeats its outputs.
    """
    first_by_prompt: dict[str, OutputPair] = {}
    for output in outputs:
        if output.tokens:
            first_by_prompt.setdefault(output.prompt, output)
    return first_by_prompt


def _repeats(pairs: Iterable[Pair]) -> Iterator[Pair]:
    by_prompt: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        prompt = pair.prompt_class, pair.place.case, pair.plain.prompt_id
        by_prompt.setdefault(prompt, []).append(pair)
    for of_prompt in by_prompt.values():
        for one, other in pairwise(of_prompt):
            yield replace(one, drafted=other.plain)


def _place(output: OutputPair) -> float:
    """Return the number of tokens up to the first difference; infinite if there is none."""
    return float("inf") if output.identical else float(output.tokens or 0)
