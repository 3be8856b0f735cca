"""Where the greedy outputs of a variant begin to differ from the baseline's, and how often.

By token ids where both transcripts have them, else by text. Two equal servers may differ too, by
rounding, so with a control the variant's outputs are judged beside its: prompt by prompt, by how
many are the baseline's and by how much of each is before the first difference.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from draftworth.analysis.clustering import student_t
from draftworth.analysis.pairing import Pair
from draftworth.analysis.statistics import CONFIDENCE, Estimate
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
