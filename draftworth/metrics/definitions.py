"""Declares each metric once, with its computation, and computes costs in US dollars.

To add a figure of a request, add a field to `RequestRecord` (`records.results`), its computation
(`measuring.streamed_request`) and a `Metric` here, listed in `METRICS`: CloudWatch, the dashboard,
summaries and the report's tables, plots and CSV files then have it. To add a figure of a variant,
give its `Metric` a function that computes the figure from the variant's blocks (`Metric.pooled`).
Records hold times in seconds and shares as fractions (0 to 1); `Metric.unit` scales them for
people and CloudWatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from draftworth.metrics import steps
from draftworth.records.findings import Verdict
from draftworth.records.results import AS_SHIPPED, CONTROL, BlockResult, Price, RequestRecord
from draftworth.speculation import explained_acceptance

SECONDS_PER_HOUR = 3600.0
NAMESPACE = "Draftworth"
DIMENSIONS = ("Experiment", "Variant", "PromptClass", "Load")


@dataclass(frozen=True)
class Unit:
    """The unit in which people and CloudWatch get a figure, which is the record's value x `scale`.

    name: the unit's name for people. cloudwatch: the unit's name in CloudWatch.
    """

    name: str
    cloudwatch: Literal["Milliseconds", "Count/Second", "Count", "Percent", "None"]
    scale: float = 1.0


MILLISECONDS = Unit("ms", "Milliseconds", scale=1000.0)
MILLISECONDS_PER_TOKEN = Unit("ms per token", "Milliseconds", scale=1000.0)
TOKENS_PER_SECOND = Unit("tokens/s", "Count/Second")
TOKENS = Unit("tokens", "Count")
PERCENT = Unit("%", "Percent", scale=100.0)
US_DOLLARS = Unit("USD", "None")
RATIO = Unit("ratio", "None")
COUNT = Unit("", "Count")


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric:
    """One figure: its names, its unit, and how it is computed and shown.

    field: the figure's name in CSV files and, if each request has a value, in `RequestRecord`.
    title: the full name. label: the short name; empty: the report's table of figures has no column.
    formula, absent: how it is computed and when it is missing, for `docs/appendix/metrics.md`.
    better: whether a lower or a higher value is better; None: neither is.
    name: the name in CloudWatch; empty if the figure is not stored there.
    digits: the number of decimal places, where people read the figure.
    of_request: whether each request has a value. every_request: whether CloudWatch also gets the
        values of requests that failed or are excluded.
    has_speedup: whether a verdict states by which factor the variant is better than the baseline.
    speculative_only: whether only variants with speculation have the figure.
    stands_in_for: another metric: CloudWatch gets this metric only for blocks that have no value of
        the other one.
    pooled: computes a variant's figure from its blocks and, for a cost, the price; None: the
        variant's figure is the median over its requests.
    """

    field: str
    title: str
    unit: Unit
    formula: str
    better: Literal["lower", "higher"] | None = None
    absent: str = "the request failed"
    name: str = ""
    label: str = ""
    digits: int = 1
    of_request: bool = True
    every_request: bool = False
    has_speedup: bool = False
    speculative_only: bool = False
    stands_in_for: Metric | None = None
    pooled: Callable[[Sequence[BlockResult], Price | None], float | None] | None = None

    @property
    def is_latency(self) -> bool:
        return self.of_request and self.unit.cloudwatch == "Milliseconds"

    @property
    def heading(self) -> str:
        return f"{self.label} ms" if self.is_latency else self.label

    @property
    def title_and_unit(self) -> str:
        """Return the title with its unit, as in `Time to first token (ms)`.

        If the title itself names the unit, it is not added.
        """
        named = self.unit.name in self.title.lower()
        return self.title if named else f"{self.title} ({self.unit.name})"

    def of(self, record: RequestRecord) -> float | None:
        """Return a request's value in the metric's unit; None if the request has no value.

        None also if the request failed or its timing cannot be trusted, unless `every_request`.
        """
        if not (record.counts or self.every_request):
            return None
        return self._stored(getattr(record, self.field))

    def of_block(self, block: BlockResult) -> float | None:
        """Return a block's value in the metric's unit; None if the block has no value.

        None also if the block has a value of the metric that this one replaces where it is missing
        (`stands_in_for`).
        """
        if self.stands_in_for and self.stands_in_for.of_block(block) is not None:
            return None
        return self._stored(self.pooled([block], None)) if self.pooled else None

    def _stored(self, value: float | None) -> float | None:
        if value is None:
            return None
        scaled = float(value * self.unit.scale)
        # Latencies are in milliseconds here. They are rounded to a nanosecond, the resolution of
        # the clock that measured them.
        return round(scaled, 6) if self.is_latency else scaled


def usd_per_million_tokens(
    price: Price | None, variant: str, throughput_token_per_s: float | None
) -> float | None:
    """Return US dollars per million output tokens; None without a price or a throughput."""
    usd_per_second = slot_usd_per_second(price, variant)
    if usd_per_second is None or not throughput_token_per_s:
        return None
    return usd_per_second / throughput_token_per_s * 1e6


def slot_usd_per_second(price: Price | None, variant: str) -> float | None:
    """Return what a variant's share of a node costs in US dollars per second; None if unknown."""
    share = price.node_shares.get(variant) if price else None
    if price is None or share is None:
        return None
    return price.usd_per_node_hour * share / SECONDS_PER_HOUR


def nodes_usd_per_second(price: Price | None) -> float | None:
    """Return what all nodes of a run cost in US dollars per second; None without a price."""
    return None if price is None else price.nodes * price.usd_per_node_hour / SECONDS_PER_HOUR


INTER_TOKEN_LATENCY = Metric(
    field="inter_token_latency_s",
    title="Inter-token latency",
    unit=MILLISECONDS_PER_TOKEN,
    formula="(cK - c1) / (N - n1)",
    better="lower",
    absent="the output came in one chunk, or the server counts no tokens",
    name="InterTokenLatency",
    label="ITL",
    digits=2,
    has_speedup=True,
)
TTFT = Metric(
    field="ttft_s",
    title="Time to first token",
    unit=MILLISECONDS,
    formula="c1 - t0",
    better="lower",
    name="TTFT",
    label="TTFT",
)
END_TO_END_LATENCY = Metric(
    field="end_to_end_latency_s",
    title="End-to-end latency",
    unit=MILLISECONDS,
    formula="cK - t0",
    better="lower",
    name="EndToEndLatency",
    label="E2E",
    has_speedup=True,
)
REQUEST_OUTPUT_THROUGHPUT = Metric(
    field="request_output_throughput_token_per_s",
    title="Output throughput of a request",
    unit=TOKENS_PER_SECOND,
    formula="N / E2E",
    better="higher",
    absent="the server counts no tokens",
    name="RequestOutputThroughput",
)
INPUT_TOKENS = Metric(
    field="number_input_tokens",
    title="Input tokens",
    unit=TOKENS,
    formula="the server's usage",
    absent="the server sends none",
    name="InputTokens",
    label="input tokens",
    digits=0,
)
OUTPUT_TOKENS = Metric(
    field="number_output_tokens",
    title="Output tokens",
    unit=TOKENS,
    formula="the server's usage (N)",
    absent="the server sends none",
    name="OutputTokens",
)
LLMPERF_INTER_TOKEN_LATENCY = Metric(
    field="llmperf_inter_token_latency_s",
    title="Inter-token latency by llmperf's definition",
    unit=MILLISECONDS,
    formula="(cK - t0) / number of events",
    digits=2,
)
# Each request has the value 1 or 0, so a CloudWatch graph shows a minute without errors as a point,
# not as a gap. Its statistic Sum is the number of failed requests, its Average their share.
ERRORS = Metric(
    field="failed",
    title="Failed requests",
    unit=COUNT,
    formula="1 for a request that failed, else 0",
    better="lower",
    absent="never",
    name="Errors",
    every_request=True,
)


def _throughput(blocks: Sequence[BlockResult], _: Price | None = None) -> float | None:
    seconds = sum(block.output_seconds for block in blocks)
    if all(block.output_throughput_token_per_s is None for block in blocks):
        return None
    return sum(block.output_tokens for block in blocks) / seconds


OUTPUT_THROUGHPUT = Metric(
    field="output_throughput_token_per_s",
    title="Output throughput of a variant",
    unit=TOKENS_PER_SECOND,
    formula="c x all tokens / sum of E2E of the measured requests, with c in flight; at random "
    "times all tokens / (last end - first start); blocks put together",
    better="higher",
    absent="no request finished",
    name="OutputThroughput",
    label="tokens/s",
    of_request=False,
    pooled=_throughput,
)


def _tokens_per_step(blocks: Sequence[BlockResult], _: Price | None) -> float | None:
    return steps.tokens_per_step(blocks)


TOKENS_PER_STEP = Metric(
    field="tokens_per_step",
    title="Output tokens per step",
    unit=TOKENS,
    formula="tokens after the first of all answers / steps: the server's own count of steps, else "
    "what its counters of generated and accepted tokens leave over, else chunks "
    "(draftworth/metrics/steps.py)",
    better="higher",
    absent="no step can be counted",
    name="TokensPerStep",
    label="tokens/step",
    digits=2,
    of_request=False,
    pooled=_tokens_per_step,
)


def _acceptance(blocks: Sequence[BlockResult], _: Price | None) -> float | None:
    counters = [b.speculation for b in blocks if b.speculation]
    drafted = sum(c.draft_tokens for c in counters)
    if not drafted:
        return acceptance_by_requests(blocks)
    return sum(c.accepted_tokens for c in counters) / drafted


def acceptance_by_requests(blocks: Sequence[BlockResult]) -> float | None:
    """Return the acceptance rate by the counts of drafted tokens that come with each answer.

    None if an answer lacks the counts, or if no token was drafted. Requests whose timing cannot be
    trusted (`RequestRecord.excluded`) are included, as they are in the server's counters.
    """
    done = [r for b in blocks for r in b.requests if not r.failed]
    if any(r.drafted_tokens is None for r in done):
        return None
    drafted = sum(r.drafted_tokens or 0 for r in done)
    return sum(r.accepted_tokens or 0 for r in done) / drafted if drafted else None


ACCEPTANCE_RATE = Metric(
    field="acceptance_rate_counted",
    title="Acceptance rate",
    unit=PERCENT,
    formula="accepted / drafted tokens, the server's counters over a block, stored at its end; "
    "without counters what it tells with every answer",
    better="higher",
    absent="the server tells neither, or drafted nothing",
    name="AcceptanceRate",
    label="acceptance",
    of_request=False,
    speculative_only=True,
    pooled=_acceptance,
)


def _acceptance_estimated(blocks: Sequence[BlockResult], _: Price | None) -> float | None:
    """Estimate the acceptance rate of some blocks (0 to 1) from their tokens per step.

    None if the blocks differ in the most tokens that a step can yield, if steps often draft less
    than a whole window, or if no acceptance rate from 0 to 1 explains the tokens per step.
    """
    most, *other_mosts = {block.max_tokens_per_step for block in blocks} or {None}
    if other_mosts or not steps.draft_whole_windows(blocks, most):
        return None
    return explained_acceptance(steps.tokens_per_step(blocks), most=most)


ACCEPTANCE_RATE_ESTIMATED = Metric(
    field="acceptance_rate_estimated",
    title="Acceptance rate, estimated",
    unit=PERCENT,
    formula="(tokens per step - 1) / (most tokens per step - 1); in CloudWatch of blocks without "
    "an acceptance rate alone",
    better="higher",
    absent="nobody said what a step can yield, or no acceptance explains the tokens per step",
    name="AcceptanceRateEstimated",
    of_request=False,
    speculative_only=True,
    stands_in_for=ACCEPTANCE_RATE,
    pooled=_acceptance_estimated,
)


def _cost(blocks: Sequence[BlockResult], price: Price | None) -> float | None:
    throughput = _throughput(blocks)
    return usd_per_million_tokens(price, blocks[0].variant, throughput) if blocks else None


COST = Metric(
    field="usd_per_million_output_tokens",
    title="Cost of a million output tokens",
    unit=US_DOLLARS,
    formula="price of a node x share of the node / output throughput of the variant",
    better="lower",
    absent="the experiment has no price",
    label="USD/M tokens",
    digits=2,
    of_request=False,
    pooled=_cost,
)


def _decoding(blocks: Sequence[BlockResult], _: Price | None) -> float | None:
    counted = [record for block in blocks for record in block.requests if record.counts]
    whole = sum(record.end_to_end_latency_s or 0.0 for record in counted)
    return 1 - sum(record.ttft_s or 0.0 for record in counted) / whole if whole else None


DECODING = Metric(
    field="decoding_share",
    title="Time in decoding",
    unit=PERCENT,
    formula="sum of (E2E - TTFT) / sum of E2E, of all requests that count",
    absent="no request finished",
    label="decoding",
    of_request=False,
    pooled=_decoding,
)

# In the order of the report's columns and of the dashboard's graphs.
METRICS = (
    INTER_TOKEN_LATENCY,
    TTFT,
    END_TO_END_LATENCY,
    REQUEST_OUTPUT_THROUGHPUT,
    OUTPUT_THROUGHPUT,
    TOKENS_PER_STEP,
    ACCEPTANCE_RATE,
    ACCEPTANCE_RATE_ESTIMATED,
    COST,
    INPUT_TOKENS,
    DECODING,
    OUTPUT_TOKENS,
    LLMPERF_INTER_TOKEN_LATENCY,
    ERRORS,
)

_NO_RATIO = "there is no interval, or requests arrive at a rate"
COST_RATIO = Metric(
    field="cost_ratio",
    title="Cost ratio",
    unit=RATIO,
    formula="what an output token costs with the variant / with the baseline; once, when the run "
    "is complete",
    better="lower",
    absent=_NO_RATIO,
    name="CostRatio",
    of_request=False,
)
COST_RATIO_LOW = Metric(
    field="cost_ratio_low",
    title="Cost ratio, low end",
    unit=RATIO,
    formula="of its 95% interval",
    better="lower",
    absent=_NO_RATIO,
    name="CostRatioLow",
    of_request=False,
)
COST_RATIO_HIGH = Metric(
    field="cost_ratio_high",
    title="Cost ratio, high end",
    unit=RATIO,
    formula="of its 95% interval",
    better="lower",
    absent=_NO_RATIO,
    name="CostRatioHigh",
    of_request=False,
)

# These are figures of a finding (a comparison in `verdict.json`), not of requests. CloudWatch gets
# them for each finding whose cost ratio has an interval.
FINDING_METRICS = (COST_RATIO, COST_RATIO_LOW, COST_RATIO_HIGH)


def shown_latencies() -> tuple[Metric, ...]:
    """Return the latency metrics that the report shows with quantiles, and as curves over time."""
    return tuple(metric for metric in METRICS if metric.label and metric.is_latency)


def with_speedup() -> tuple[Metric, ...]:
    """Return the metrics for which the verdict states a speedup."""
    return tuple(metric for metric in METRICS if metric.has_speedup)


def published() -> tuple[Metric, ...]:
    """Return the metrics that CloudWatch stores."""
    return tuple(metric for metric in METRICS if metric.name)


def charged(*, speculates: bool) -> tuple[Metric, ...]:
    """Return the CloudWatch metrics that AWS charges for, for one variant, prompt class and load.

    Metrics that only replace a missing metric are left out. speculates: False for the baseline.
    """
    return tuple(
        metric
        for metric in published()
        if not metric.stands_in_for and (speculates or not metric.speculative_only)
    )


def dimension_values(block: BlockResult) -> dict[str, str]:
    """Return the CloudWatch dimensions of a block's metrics, in the order of `DIMENSIONS`."""
    values = (block.experiment, block.variant, block.prompt_class, block.load.label)
    return dict(zip(DIMENSIONS, values, strict=True))


def published_findings(verdict: Verdict) -> Iterator[tuple[dict[str, str], dict[Metric, float]]]:
    """Yield the CloudWatch dimensions and the cost ratios of each finding that has an interval.

    Left out are the comparisons with the second baseline, which has the engine's default settings,
    and those of the control, a second server without speculation.
    """
    for finding in verdict.findings:
        values = {metric: getattr(finding, metric.field) for metric in FINDING_METRICS}
        is_of_interest = finding.baseline != AS_SHIPPED and finding.variant != CONTROL
        if is_of_interest and None not in values.values():
            names = (verdict.experiment, finding.variant, finding.traffic, finding.load)
            yield dict(zip(DIMENSIONS, names, strict=True)), values
