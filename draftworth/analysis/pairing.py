"""Defines traffic (prompt classes at one load), and pairs the requests of two variants in it.

A pair is one prompt, sent to the baseline and to a variant in the same round, so both servers do
the same work within the same minutes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import Sample
from draftworth.analysis.summary import Group, figure_of
from draftworth.metrics.definitions import Metric
from draftworth.records.load_shapes import Load
from draftworth.records.results import BlockResult, Price, RequestRecord

# With at least this many cases (prompt sets), those of a class count as a random sample of similar
# cases. With fewer, a class's figures hold for the measured cases only.
MANY_CASES = 8
TRAFFIC_MIX = "traffic mix"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The prompt classes that a verdict is about, at one load.

    weights: each class's share of the output tokens, by name.
    """

    weights: Mapping[str, float]
    load: Load

    @classmethod
    def of(cls, group: Group) -> Traffic:
        return cls(weights={group.prompt_class: 1.0}, load=group.load)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(Group(prompt_class=name, load=self.load) for name in self.weights)

    @property
    def name(self) -> str:
        return TRAFFIC_MIX if len(self.weights) > 1 else next(iter(self.weights))

    @property
    def label(self) -> str:
        return f"{self.name} at {self.load.words}"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A prompt's requests to the baseline (`plain`) and to the variant (`drafted`) in one round.

    round: the number of the round at its load. place: a `Sample` without a value, which names the
    clusters (prompt, block, repetition) of the pair.
    """

    prompt_class: str
    round: int
    place: Sample
    plain: RequestRecord
    drafted: RequestRecord

    def sample(self, value: float, *, weight: float = 1.0) -> Sample:
        return self.place._replace(value=value, weight=weight)


def paired(
    blocks: Sequence[BlockResult], traffic: Traffic, *, variant: str, baseline: str
) -> tuple[Pair, ...]:
    """Return all pairs of a baseline's and a variant's request in the traffic's classes and load.

    Requests that failed, or whose timing cannot be trusted, are included. The two requests of a
    pair have the same run, repetition, case, round and prompt. If blocks send a prompt several
    times, its n-th request in one block is paired with its n-th request in the other.
    """
    return tuple(
        pair
        for group in traffic.groups
        for pair in _paired(
            group.prompt_class, group.blocks(blocks, baseline), group.blocks(blocks, variant)
        )
    )


def counting(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return the pairs of which both requests succeeded with a timing that can be trusted."""
    return tuple(pair for pair in pairs if pair.plain.counts and pair.drafted.counts)


def samples_of(
    blocks: Sequence[BlockResult], group: Group, variant: str
) -> list[tuple[Sample, RequestRecord]]:
    """Return a variant's requests in a group (a prompt class at one load), with their clusters.

    Each is (`Sample` without a value, which names the request's clusters; the request).
    """
    of_variant = group.blocks(blocks, variant)
    drawn = are_drawn(block.case for block in of_variant)
    return [
        (_place(*where, repetition_of(block), block.round, drawn=drawn), record)
        for block in of_variant
        for record in block.requests
        for where in [(group.prompt_class, block.case, record.prompt_id)]
    ]


def repetition_of(block: BlockResult) -> str:
    """Return the name of the block's repetition, unique over runs."""
    return f"{block.run_id}/{block.repetition}"


def weighted(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    variant: str,
    metric: Metric,
    *,
    power: int = 1,
    price: Price | None = None,
) -> float | None:
    """Return the mean of a metric over the traffic's classes, weighted by `traffic.weights`.

    None if the value of any class is missing or 0. power: -1 for the weighted mean of 1 / value.
    price: needed if the metric is a cost.
    """
    figures = {
        group.prompt_class: figure_of(group.blocks(blocks, variant), metric, price)
        for group in traffic.groups
    }
    parts = [traffic.weights[name] * value**power for name, value in figures.items() if value]
    return math.fsum(parts) if len(parts) == len(figures) else None


def are_drawn(cases: Iterable[str]) -> bool:
    """Return whether a class has so many cases that they count as a random sample of such cases."""
    return len(set(cases)) >= MANY_CASES


def _place(
    prompt_class: str, case: str, prompt_id: str, repetition: str, number: int, *, drawn: bool
) -> Sample:
    """Return a `Sample` without a value, which names a request's clusters.

    number: the number of the round. drawn: whether the class has so many cases (prompt sets) that
    they count as a random sample. Then the requests of a case form a cluster, otherwise those of a
    prompt.
    """
    return Sample(
        stratum=prompt_class if drawn else f"{prompt_class}/{case}",
        prompt=case if drawn else f"{case}/{prompt_id}",
        block=f"{case}/{repetition}/{number}",
        repetition=repetition,
        case=case,
        value=0.0,
    )


def _paired(
    prompt_class: str, plain_blocks: list[BlockResult], drafted_blocks: list[BlockResult]
) -> Iterator[Pair]:
    plain, drafted = _by_identity(plain_blocks), _by_identity(drafted_blocks)
    both = sorted(plain.keys() & drafted.keys())
    drawn = are_drawn(case for case, *_ in both)
    for key in both:
        yield Pair(
            prompt_class=prompt_class,
            round=key[3],
            place=_place(prompt_class, *key[:4], drawn=drawn),
            plain=plain[key],
            drafted=drafted[key],
        )


def _by_identity(
    blocks: Iterable[BlockResult],
) -> dict[tuple[str, str, str, int, int], RequestRecord]:
    by_identity: dict[tuple[str, str, str, int, int], RequestRecord] = {}
    for block in blocks:
        occurrences: defaultdict[str, int] = defaultdict(int)
        repetition = repetition_of(block)
        for record in block.requests:
            occurrence = occurrences[record.prompt_id]
            by_identity[block.case, record.prompt_id, repetition, block.round, occurrence] = record
            occurrences[record.prompt_id] += 1
    return by_identity
