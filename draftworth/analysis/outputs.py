"""Where the greedy outputs of a variant begin to differ from the baseline's."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Pair
from draftworth.records.transcripts import Transcripts

CONTEXT_CHARACTERS = 40


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


def first_difference(one: str, other: str) -> int:
    """The position of the first character that differs; the shorter length if one goes on."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def tokens_before(divergences: Sequence[Divergence]) -> tuple[int, int] | None:
    """Fewest and median output tokens before the difference; None where none is known."""
    tokens = [d.token for d in divergences if d.token is not None]
    return (min(tokens), statistics.median_high(tokens)) if tokens else None
