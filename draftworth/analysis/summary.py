"""Computes the figures of one variant in one group: a prompt class at one load."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from draftworth.metrics import definitions
from draftworth.metrics.definitions import Metric
from draftworth.records.load_shapes import Load
from draftworth.records.results import BlockResult, Price, RequestRecord, values_of

# The most finish reasons that are named: vLLM has four, but other servers may have many more than a
# table has room for.
_MOST_REASONS = 5
# The mean number of input tokens may differ from the load's by up to this share, because a server
# may count a few more tokens in a prompt than the tokenizer that made the prompt.
_INPUT_TOLERANCE = 0.05


def latency_s(record: RequestRecord, field: str) -> float | None:
    """Return a latency of a request; None: it has none, or it cannot be trusted.

    A request that timed out has the time that the client waited, but no inter-token latency.
    field: the latency's field in `RequestRecord`.
    """
    if record.timed_out_after_s is not None:
        return None if field == "inter_token_latency_s" else record.timed_out_after_s
    return getattr(record, field) if record.counts else None


def wrong_input_tokens(records: Sequence[RequestRecord], load: Load) -> float | None:
    """Return the mean number of input tokens if it differs from the load's by more than 5%.

    None if it differs by less, if the load sets no `input_tokens`, or if no request's input tokens
    are counted.
    """
    counts = [r.number_input_tokens for r in records if r.number_input_tokens is not None]
    if load.input_tokens is None or not counts:
        return None
    mean = statistics.fmean(counts)
    return mean if abs(mean / load.input_tokens - 1) > _INPUT_TOLERANCE else None


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """The shortest, median and greatest length of some prompts or outputs, in tokens."""

    fewest: int
    median: float
    most: int


def lengths_of(counts: Iterable[int | None]) -> Lengths | None:
    """Return the fewest, median and most tokens of `counts`; None if all counts are None."""
    counted = [count for count in counts if count is not None]
    if not counted:
        return None
    return Lengths(fewest=min(counted), median=statistics.median(counted), most=max(counted))


@dataclass(frozen=True, kw_only=True)
class OutputLengths(Lengths):
    """Output tokens of the requests that did not fail, with their finish reasons.

    ends: number of requests by finish reason, the most frequent first. `stop`: the model ended the
        output; `length`: it reached max_tokens; `not told`: the server gives no reason; `other`:
        all reasons that are too rare to be named.
    """

    ends: Mapping[str, int]


def output_lengths(records: Sequence[RequestRecord]) -> OutputLengths | None:
    """Return the output lengths of requests that did not fail; None if no tokens are counted."""
    done = [r for r in records if not r.failed]
    lengths = lengths_of(r.number_output_tokens for r in done)
    if lengths is None:
        return None
    ends = Counter(r.finish_reason or "not told" for r in done)
    named = dict(ends.most_common(_MOST_REASONS))
    unnamed = {"other": ends.total() - sum(named.values())}
    ended = {**named, **(unnamed if unnamed["other"] else {})}
    return OutputLengths(**vars(lengths), ends=ended)


@dataclass(frozen=True, kw_only=True)
class Group:
    """One prompt class at one load. The requests of a group are judged together."""

    prompt_class: str
    load: Load

    @property
    def label(self) -> str:
        return f"{self.prompt_class} at {self.load.words}"

    def blocks(self, blocks: Iterable[BlockResult], variant: str) -> list[BlockResult]:
        wanted = (self.prompt_class, self.load, variant)
        return [b for b in blocks if (b.prompt_class, b.load, b.variant) == wanted]


def groups_of(blocks: Iterable[BlockResult]) -> tuple[Group, ...]:
    """Return the groups in the order in which they were first measured."""
    ordered = sorted(blocks, key=lambda b: b.block)
    return tuple(dict.fromkeys(Group(prompt_class=b.prompt_class, load=b.load) for b in ordered))


@dataclass(frozen=True, kw_only=True)
class RequestCounts:
    """The number of a variant's requests in one group (a prompt class at one load).

    requests, failed, excluded: number of all requests, of those that failed, and of those whose
        timing cannot be trusted.
    """

    group: Group
    variant: str
    requests: int
    failed: int
    excluded: int

    @property
    def counted(self) -> int:
        return self.requests - self.failed - self.excluded

    @property
    def excluded_share(self) -> float:
        return self.excluded / ((self.requests - self.failed) or 1)


@dataclass(frozen=True, kw_only=True)
class VariantSummary(RequestCounts):
    """The figures of one variant in one group.

    figures: the variant's value of each metric, in seconds, tokens, US dollars or fractions (0 to
        1); metrics that were not measured are missing.
    """

    figures: Mapping[Metric, float]

    def value(self, metric: Metric) -> float | None:
        return self.figures.get(metric)


def summarize(
    blocks: Iterable[BlockResult], group: Group, variant: str, price: Price | None = None
) -> VariantSummary:
    """Return the figures of one variant in one group (a prompt class at one load).

    blocks: those of any variants and groups. price: without it, the figures have no cost.
    """
    of_variant = group.blocks(blocks, variant)
    published = [metric for metric in definitions.METRICS if not metric.every_request]
    values = {metric: figure_of(of_variant, metric, price) for metric in published}
    counts = count_requests(of_variant, group, variant)
    return VariantSummary(
        group=group,
        variant=variant,
        requests=counts.requests,
        failed=counts.failed,
        excluded=counts.excluded,
        figures={metric: value for metric, value in values.items() if value is not None},
    )


def count_requests(blocks: Iterable[BlockResult], group: Group, variant: str) -> RequestCounts:
    """Count the requests of one variant in one group. blocks: those of any variants and groups."""
    records = [r for b in group.blocks(blocks, variant) for r in b.requests]
    return RequestCounts(
        group=group,
        variant=variant,
        requests=len(records),
        failed=sum(r.failed for r in records),
        excluded=sum(r.excluded is not None for r in records),
    )


def figure_of(blocks: Sequence[BlockResult], metric: Metric, price: Price | None) -> float | None:
    """Return the value of a metric over one variant's blocks; None: it was not measured."""
    if metric.pooled:
        return metric.pooled(blocks, price)
    values = values_of((r for b in blocks for r in b.requests), metric.field)
    return statistics.median(values) if values else None
