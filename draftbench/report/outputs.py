"""Where the greedy outputs of a variant part from the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draftbench.report.transcripts import Transcripts
from draftbench.results import BlockResult
from draftbench.verdict import Group, pairs_by_prompt

CONTEXT_CHARACTERS = 40


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """A pair whose texts differ: the first character that does, and what follows in each."""

    prompt: str
    position: int
    baseline_goes_on: str
    variant_goes_on: str


def divergences(
    blocks: Sequence[BlockResult],
    group: Group,
    *,
    variant: str,
    baseline: str,
    transcripts: Transcripts,
) -> tuple[Divergence, ...]:
    """Every differing pair of a group that has both transcripts, the earliest divergence first."""
    found = []
    for cluster in pairs_by_prompt(blocks, group, variant=variant, baseline=baseline):
        for plain, drafted in cluster:
            ours, theirs = transcripts.get(plain.request_id), transcripts.get(drafted.request_id)
            if ours and theirs and ours.text != theirs.text:
                found.append(_divergence(plain.prompt_id, ours.text, theirs.text))
    return tuple(sorted(found, key=lambda d: (d.position, d.prompt)))


def _divergence(prompt: str, ours: str, theirs: str) -> Divergence:
    position = first_difference(ours, theirs)
    end = position + CONTEXT_CHARACTERS
    return Divergence(
        prompt=prompt,
        position=position,
        baseline_goes_on=ours[position:end],
        variant_goes_on=theirs[position:end],
    )


def first_difference(one: str, other: str) -> int:
    """The position of the first character that differs; the shorter length if one goes on."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
