"""One variant's figures in one group: a prompt class at one load."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.metrics import definitions
from draftworth.metrics.definitions import Metric
from draftworth.records.load import Load
from draftworth.records.results import BlockResult, Price, RequestRecord, values_of


@dataclass(frozen=True, kw_only=True)
class Group:
    """What is judged together: one prompt class at one load."""

    prompt_class: str
    load: Load

    @property
    def label(self) -> str:
        """`structured at c4`."""
        return f"{self.prompt_class} at {self.load.label}"

    def blocks(self, blocks: Iterable[BlockResult], variant: str) -> list[BlockResult]:
        """Those of one variant in this group."""
        wanted = (self.prompt_class, self.load, variant)
        return [b for b in blocks if (b.prompt_class, b.load, b.variant) == wanted]


def groups_of(blocks: Iterable[BlockResult]) -> tuple[Group, ...]:
    """The groups in the order they were first measured."""
    ordered = sorted(blocks, key=lambda b: b.block)
    return tuple(dict.fromkeys(Group(prompt_class=b.prompt_class, load=b.load) for b in ordered))


@dataclass(frozen=True, kw_only=True)
class VariantSummary:
    """One variant in one group. `figures` has what was measured, in the records' units."""

    group: Group
    variant: str
    requests: int
    failed: int
    excluded: int
    figures: Mapping[Metric, float]

    @property
    def counted(self) -> int:
        """Requests whose figures count."""
        return self.requests - self.failed - self.excluded

    @property
    def excluded_share(self) -> float:
        """Excluded requests / requests that did not fail."""
        return self.excluded / ((self.requests - self.failed) or 1)

    def value(self, metric: Metric) -> float | None:
        """One figure; None where it was not measured."""
        return self.figures.get(metric)


def summarize(
    blocks: Iterable[BlockResult], group: Group, variant: str, price: Price | None = None
) -> VariantSummary:
    """The figures of one variant in one group."""
    own = group.blocks(blocks, variant)
    records = [r for b in own for r in b.requests]
    return VariantSummary(
        group=group,
        variant=variant,
        requests=len(records),
        failed=sum(r.failed for r in records),
        excluded=sum(r.excluded is not None for r in records),
        figures=dict(_figures(own, records, price)),
    )


def _figures(
    blocks: Sequence[BlockResult], records: Sequence[RequestRecord], price: Price | None
) -> Iterator[tuple[Metric, float]]:
    for metric in definitions.METRICS:
        if metric.pooled:
            value = metric.pooled(blocks, price)
        else:
            values = values_of(records, metric.field)
            value = statistics.median(values) if values else None
        if value is not None and not metric.every_request:
            yield metric, value
