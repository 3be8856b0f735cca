"""Tokens per step of a draft for every window, with intervals over prompts."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from draftworth.analysis.clustering import Sample, spread
from draftworth.analysis.statistics import Estimate, ratio_estimate
from draftworth.records.readings import Reading
from draftworth.speculation import steps_of


def hit_rate(readings: Iterable[Reading]) -> float | None:
    """Return the share of tokens after the first that the draft predicts; None without tokens."""
    hits = "".join(reading.hits for reading in readings)
    return hits.count("1") / len(hits) if hits else None


def yields(readings: Iterable[Reading], checked: Collection[int]) -> dict[str, dict[int, Estimate]]:
    """Return tokens per step by prompt class and by the number of drafts that a step checks."""
    classes: defaultdict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.hits:
            classes[reading.prompt_class].append(reading)
    return {
        name: {number: _tokens_per_step(own, number) for number in checked}
        for name, own in classes.items()
    }


def _tokens_per_step(readings: Sequence[Reading], checked: int) -> Estimate:
    """Return sum of tokens / sum of steps, with the error of its logarithm's linear part.

    Only prompts are a sample: the same output gives the same steps however often it is read.
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
