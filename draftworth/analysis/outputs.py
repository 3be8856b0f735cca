"""Where greedy outputs differ from the baseline's, and whether rounding explains it.

By token ids where both transcripts have them, else by text. Two equal servers may differ too, by
rounding, so with a control the variant's outputs are judged beside its: prompt by prompt, by how
many are the baseline's and by how much of each is before the first difference.

A right server that checks several tokens at once rounds otherwise than one that makes them one by
one, and may say the other of two tokens that are nearly as likely; all after it differs then. So
outputs that differ show nothing by themselves, and a control, which computes in the shapes of the
baseline, rounds as that does. What rounding cannot do is to part outputs at one token after
another. Docs: docs/decisions/0025-whose-answers.md.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from draftworth.analysis.clustering import student_t
from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.analysis.statistics import CONFIDENCE, Estimate, at_least
from draftworth.analysis.summary import groups_of
from draftworth.records.likelihoods import FALSE_ALARMS
from draftworth.records.load import Load
from draftworth.records.reading import Run
from draftworth.records.results import CONTROL, BlockResult
from draftworth.records.transcripts import Transcripts

CONTEXT_CHARACTERS = 40
SHA256_OF_NOTHING = hashlib.sha256().hexdigest()
# Outputs are as alike as the control's where at most so much of them, by either measure, is less.
LIKENESS_MARGIN = 0.1

LikenessWord = Literal["as alike", "differs more", "cannot be told"]


@dataclass(frozen=True, kw_only=True)
class OutputPair:
    """Both outputs of a pair.

    prompt: what was drawn. kept: the part of the output before the first difference, 1 where there
        is none; None: not known.
    tokens: up to the first difference, that one too, or all where there is none; None: not known.
    """

    prompt: str
    identical: bool
    kept: float | None
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """A variant's outputs beside those of a second server that does not speculate.

    identical_share, kept_share: the variant's - the control's, of outputs that are the baseline's
        and of what lies before the first difference; None: not known.
    """

    control_identical: int
    control_compared: int
    identical_share: Estimate
    kept_share: Estimate | None

    @property
    def word(self) -> LikenessWord:
        """By the worse of both measures."""
        lows = [(e.low, e.high) for e in (self.identical_share, self.kept_share) if e]
        if any(high is not None and high < 0 for _, high in lows):
            return "differs more"
        alike = all(low is not None and low > -LIKENESS_MARGIN for low, _ in lows)
        return "as alike" if alike else "cannot be told"


def output_pairs(pairs: Iterable[Pair], transcripts: Transcripts) -> tuple[OutputPair, ...]:
    """Of every pair whose outputs can be compared."""
    return tuple(_output_pairs(pairs, transcripts))


def _output_pairs(pairs: Iterable[Pair], transcripts: Transcripts) -> Iterator[OutputPair]:
    for pair in pairs:
        ours = transcripts.get(pair.plain.request_id)
        theirs = transcripts.get(pair.drafted.request_id)
        prompt = f"{pair.stratum}\n{pair.prompt}"
        if ours and theirs and ours.token_ids and theirs.token_ids:
            yield _by_ids(prompt, ours.token_ids, theirs.token_ids)
            continue
        hashes = pair.plain.output_sha256, pair.drafted.output_sha256
        # Text that neither server sent shows nothing: it may be in a field that is not read.
        if not all(hashes) or {*hashes} == {SHA256_OF_NOTHING}:
            continue
        identical = hashes[0] == hashes[1]
        known = ours and theirs and (ours.text or theirs.text)
        kept_text = _kept(ours.text, theirs.text) if ours and theirs and known else None
        yield OutputPair(prompt=prompt, identical=identical, kept=1.0 if identical else kept_text)


def _by_ids(prompt: str, ours: Sequence[int], theirs: Sequence[int]) -> OutputPair:
    alike, longest = first_difference(ours, theirs), max(len(ours), len(theirs))
    return OutputPair(
        prompt=prompt,
        identical=alike == longest,
        kept=alike / longest,
        tokens=min(alike + 1, longest),
    )


def _kept(one: Sequence[object], other: Sequence[object]) -> float:
    return first_difference(one, other) / max(len(one), len(other))


def likeness(found: Sequence[OutputPair], control: Sequence[OutputPair]) -> Likeness | None:
    """Of a variant; None where it or the control has no outputs of the same prompts."""
    shares = _difference(
        [(o.prompt, float(o.identical)) for o in found],
        [(o.prompt, float(o.identical)) for o in control],
    )
    if shares is None:
        return None
    return Likeness(
        control_identical=sum(o.identical for o in control),
        control_compared=len(control),
        identical_share=shares,
        kept_share=_difference(
            [(o.prompt, o.kept) for o in found if o.kept is not None],
            [(o.prompt, o.kept) for o in control if o.kept is not None],
        ),
    )


def _difference(
    found: Sequence[tuple[str, float]], control: Sequence[tuple[str, float]]
) -> Estimate | None:
    """Mean over prompts of what the variant's share is above the control's.

    To the prompts two are added, one that differs all the one way and one all the other (Bonett and
    Price 2012, "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on
    Paired Data"), so that a few prompts that are all alike do not pass for certainty.
    """
    own, others = _by_prompt(found), _by_prompt(control)
    differences = [own[prompt] - others[prompt] for prompt in own.keys() & others.keys()]
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
        samples=len(found),
    )


def _by_prompt(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for prompt, value in values:
        found.setdefault(prompt, []).append(value)
    return {prompt: statistics.fmean(of_prompt) for prompt, of_prompt in found.items()}


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A pair whose texts differ: where, and what follows in each.

    token: output tokens before the difference, by the baseline's chunks; None: not known.
    character: the position of the first character that differs.
    """

    prompt: str
    token: int | None
    character: int
    baseline_text: str
    variant_text: str


def divergences(pairs: Iterable[Pair], transcripts: Transcripts) -> tuple[Divergence, ...]:
    """Every differing pair that has both transcripts, the earliest difference first."""
    found = []
    for pair in pairs:
        ours = transcripts.get(pair.plain.request_id)
        theirs = transcripts.get(pair.drafted.request_id)
        if ours and theirs and ours.text != theirs.text:
            at = first_difference(ours.text, theirs.text)
            end = at + CONTEXT_CHARACTERS
            found.append(
                Divergence(
                    prompt=pair.plain.prompt_id,
                    token=ours.tokens_before(at),
                    character=at,
                    baseline_text=ours.text[at:end],
                    variant_text=theirs.text[at:end],
                )
            )
    return tuple(sorted(found, key=lambda d: (d.character, d.prompt)))


def first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """The position of the first thing that differs; the shorter length if one goes on."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def tokens_before(divergences: Sequence[Divergence]) -> tuple[int, int] | None:
    """Fewest and median output tokens before the difference; None where none is known."""
    tokens = [d.token for d in divergences if d.token is not None]
    return (min(tokens), statistics.median_high(tokens)) if tokens else None


# Right servers part at most at this part of tokens: most outputs of 128 tokens that are known to
# differ by rounding alone make one or two of a hundred.
ROUNDING_PER_TOKEN = 0.05


@dataclass(frozen=True, kw_only=True)
class Parting:
    """A variant's greedy outputs beside the baseline's at a load, by token ids; one pair a prompt.

    differing: pairs that differ. tokens: compared in all pairs, up to the first difference.
    sooner, later: prompts whose outputs part sooner, or later, than those of the noise floor.
    floor: what that is, in words. alarms: false ones, in this part of right servers.
    """

    variant: str
    load: str
    prompts: int
    differing: int
    tokens: int
    sooner: int
    later: int
    floor: str
    alarms: float

    @property
    def is_the_targets(self) -> bool:
        """Nothing shows that they are not: they part no sooner than the floor, or than rounding."""
        beside_floor = at_least(self.sooner, self.sooner + self.later, 0.5)
        beside_rounding = at_least(self.differing, self.tokens, ROUNDING_PER_TOKEN)
        return max(beside_floor, beside_rounding) > self.alarms

    @property
    def words(self) -> str:
        """What is wrong, for a reader; empty where nothing is."""
        if self.is_the_targets:
            return ""
        return (
            f"{self.variant}: its answers are not the target's: at {self.load} {self.differing} of "
            f"{self.prompts} differ from the baseline's, at one token in "
            f"{self.tokens / self.differing:.0f}, sooner than {self.floor} and than rounding "
            f"explains (one in {1 / ROUNDING_PER_TOKEN:.0f})"
        )


def partings(
    run: Run, control: Sequence[BlockResult], transcripts: Transcripts, *, but: Collection[str]
) -> Iterator[Parting]:
    """Of every variant, load by load, where outputs are greedy and there is a noise floor.

    run: without its control. but: variants whose outputs a model has read, which says more.
    """
    baseline = run.result.baseline
    loads = _loads(run)
    for variant in run.result.variants if not run.result.temperature else ():
        for load, classes in loads.items() if variant not in {baseline, *but} else ():
            traffic = Traffic(weights=classes, load=load)
            pairs = counting(paired(run.blocks, traffic, variant=variant, baseline=baseline))
            equals = counting(paired(control, traffic, variant=CONTROL, baseline=baseline))
            own = _first_of_each(output_pairs(pairs, transcripts))
            floor, words = _floor(pairs, equals, transcripts)
            if own.keys() & floor.keys():
                sooner, later = _orders(own, floor)
                yield Parting(
                    variant=variant,
                    load=load.label,
                    prompts=len(own),
                    differing=sum(not pair.identical for pair in own.values()),
                    tokens=sum(pair.tokens or 0 for pair in own.values()),
                    sooner=sooner,
                    later=later,
                    floor=words,
                    alarms=FALSE_ALARMS / len(loads),
                )


def _loads(run: Run) -> dict[Load, dict[str, float]]:
    """Every load with its classes."""
    found: dict[Load, dict[str, float]] = {}
    for group in groups_of(run.blocks):
        found.setdefault(group.load, {})[group.prompt_class] = 1.0
    return found


def _floor(
    pairs: Sequence[Pair], equals: Sequence[Pair], transcripts: Transcripts
) -> tuple[dict[str, OutputPair], str]:
    """What should be as alike, and in words: the control, else the baseline's repeated answers."""
    if floor := _first_of_each(output_pairs(equals, transcripts)):
        return floor, "those of a second server without speculation"
    return _first_of_each(output_pairs(_repeats(pairs), transcripts)), "the baseline's own repeats"


def _orders(own: Mapping[str, OutputPair], floor: Mapping[str, OutputPair]) -> tuple[int, int]:
    """Prompts whose outputs part sooner than those of the floor, and later."""
    both = [(_place(own[prompt]), _place(floor[prompt])) for prompt in own.keys() & floor.keys()]
    return sum(o < f for o, f in both), sum(o > f for o, f in both)


def _first_of_each(outputs: Iterable[OutputPair]) -> dict[str, OutputPair]:
    """Of a prompt the first pair: a greedy server repeats itself."""
    found: dict[str, OutputPair] = {}
    for output in outputs:
        if output.tokens:
            found.setdefault(output.prompt, output)
    return found


def _repeats(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The baseline's answers to a prompt beside its own later ones."""
    by_prompt: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        prompt = pair.prompt_class, pair.case, pair.plain.prompt_id
        by_prompt.setdefault(prompt, []).append(pair)
    for of_prompt in by_prompt.values():
        for one, other in pairwise(of_prompt):
            yield replace(one, drafted=other.plain)


def _place(output: OutputPair) -> float:
    """Of the first difference, in tokens; infinite where there is none."""
    return float("inf") if output.identical else float(output.tokens or 0)
