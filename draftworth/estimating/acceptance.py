"""Tokens per step of a draft for every window, with intervals over prompts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import Sample, spread
from draftworth.analysis.speculation import steps_of
from draftworth.analysis.statistics import Estimate, ratio_estimate
from draftworth.records.readings import Reading


@dataclass(frozen=True, kw_only=True)
class Yield:
    """What one window of a draft gives in a prompt class. checked: drafts that a step checks."""

    prompt_class: str
    checked: int
    tokens_per_step: Estimate


def hit_rate(readings: Iterable[Reading]) -> float | None:
    """Of all tokens after the first, those that the draft would have said; None without any."""
    hits = "".join(reading.hits for reading in readings)
    return hits.count("1") / len(hits) if hits else None


def yields(readings: Sequence[Reading], checked: Iterable[int]) -> list[Yield]:
    """Tokens per step, class by class, for each number of checked drafts."""
    classes: defaultdict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.hits:
            classes[reading.prompt_class].append(reading)
    return [
        Yield(prompt_class=name, checked=number, tokens_per_step=_tokens_per_step(own, number))
        for number in checked
        for name, own in classes.items()
    ]


def _tokens_per_step(readings: Sequence[Reading], checked: int) -> Estimate:
    """Sum of tokens / sum of steps, as a variant's is in a run, linearised on its logarithm.

    Prompts alone are drawn: the same output gives the same steps however often it is read.
    """
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for reading in readings:
        place = (reading.case, reading.prompt_id)
        tokens, steps = sums.get(place, (0, 0))
        count = sum(1 for _ in steps_of(reading.flags, checked=checked))
        sums[place] = (tokens + len(reading.hits), steps + count)
    all_tokens = sum(tokens for tokens, _ in sums.values())
    all_steps = sum(steps for _, steps in sums.values())
    samples = [
        Sample(
            stratum=case,
            prompt=prompt,
            block=prompt,
            value=tokens / all_tokens - steps / all_steps,
        )
        for (case, prompt), (tokens, steps) in sums.items()
    ]
    return ratio_estimate(math.log(all_tokens / all_steps), spread(samples), samples=len(samples))


def by_class(found: Iterable[Yield]) -> Mapping[str, list[Yield]]:
    """The yields of each class, by rising window."""
    classes: defaultdict[str, list[Yield]] = defaultdict(list)
    for one in found:
        classes[one.prompt_class].append(one)
    return {name: sorted(own, key=lambda y: y.checked) for name, own in classes.items()}
