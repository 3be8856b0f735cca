"""Every figure is declared here, ONCE; what stores, compares and shows figures iterates over this.

Standard library only. A new figure of a request is a field of `RequestRecord` (`records.results`),
its computing (`measuring.client`) and a `Metric` here: CloudWatch, the dashboard, summaries, the
report's tables, plots and CSV files then have it. Records have seconds, tokens and parts of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from draftworth.analysis.costs import usd_per_million_tokens
from draftworth.records.results import BlockResult, Price, RequestRecord

NAMESPACE = "Draftworth"
DIMENSIONS = ("Experiment", "Variant", "PromptClass")

_NANOSECOND_IN_MS_DIGITS = 6


@dataclass(frozen=True)
class Unit:
    """What people and CloudWatch are shown is the record's value x scale, in this unit."""

    name: str
    cloudwatch: Literal["Milliseconds", "Count/Second", "Count", "Percent", "None"]
    scale: float = 1.0


MILLISECONDS = Unit("ms", "Milliseconds", 1000.0)
MILLISECONDS_PER_TOKEN = Unit("ms per token", "Milliseconds", 1000.0)
TOKENS_PER_SECOND = Unit("tokens/s", "Count/Second")
TOKENS = Unit("tokens", "Count")
PERCENT = Unit("%", "Percent", 100.0)
US_DOLLARS = Unit("USD", "None")
COUNT = Unit("", "Count")


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric:
    """One figure, and all that is said of it anywhere.

    field: the attribute of a request's record, where requests have it; its name in CSV files.
    title: for a person, in full. label: in short; empty: not in the report's table of figures.
    formula, absent: how it is computed and when there is none, in the terms of `docs/metrics.md`.
    better: the direction that is better; None for a figure that is not compared.
    name: in CloudWatch; empty: not stored there.
    digits: after the point, where people read it.
    of_request: each request has one. every_request: also one that failed or is excluded.
    has_speedup: the verdict states its ratio over pairs of requests.
    speculative_only: the baseline has none.
    pooled: a variant's figure from all of its blocks; None: the median over its requests.
    """

    field: str
    title: str
    unit: Unit
    formula: str
    better: Literal["lower", "higher"] | None
    absent: str = "the request failed"
    name: str = ""
    label: str = ""
    digits: int = 1
    of_request: bool = True
    every_request: bool = False
    has_speedup: bool = False
    speculative_only: bool = False
    pooled: Callable[[Sequence[BlockResult], Price | None], float | None] | None = None

    @property
    def is_latency(self) -> bool:
        """A time of a request."""
        return self.of_request and self.unit.cloudwatch == "Milliseconds"

    @property
    def heading(self) -> str:
        """Of its column in a table."""
        return f"{self.label} ms" if self.is_latency else self.label

    @property
    def title_and_unit(self) -> str:
        """`Time to first token (ms)`; a title that names the unit says it once."""
        named = self.unit.name in self.title.lower()
        return self.title if named else f"{self.title} ({self.unit.name})"

    def of(self, record: RequestRecord) -> float | None:
        """A request's value as CloudWatch stores it; None if the request has none that counts."""
        if not (record.counts or self.every_request):
            return None
        return self._stored(getattr(record, self.field))

    def of_block(self, block: BlockResult) -> float | None:
        """The same of a figure that only whole blocks have."""
        return self._stored(self.pooled([block], None)) if self.pooled else None

    def _stored(self, value: float | None) -> float | None:
        if value is None:
            return None
        scaled = float(value * self.unit.scale)
        # To the nanosecond, the resolution of the clock that took it.
        return round(scaled, _NANOSECOND_IN_MS_DIGITS) if self.is_latency else scaled


def _throughput(blocks: Sequence[BlockResult], _: Price | None = None) -> float | None:
    tokens = seconds = 0.0
    for block in blocks:
        rate = block.output_throughput_token_per_s
        if rate:
            added = sum(r.number_output_tokens or 0 for r in block.requests if not r.failed)
            tokens += added
            seconds += added / rate
    return tokens / seconds if seconds else None


def _tokens_per_step(blocks: Sequence[BlockResult], _: Price | None) -> float | None:
    counted = [r for b in blocks for r in b.requests if r.counts and r.tokens_per_step is not None]
    steps = sum(r.chunks - 1 for r in counted)
    tokens = sum((r.number_output_tokens or 0) - (r.first_chunk_tokens or 0) for r in counted)
    return tokens / steps if steps else None


def _acceptance(blocks: Sequence[BlockResult], _: Price | None) -> float | None:
    counters = [b.speculation for b in blocks if b.speculation]
    drafted = sum(c.draft_tokens for c in counters)
    return sum(c.accepted_tokens for c in counters) / drafted if drafted else None


def _cost(blocks: Sequence[BlockResult], price: Price | None) -> float | None:
    throughput = _throughput(blocks)
    return usd_per_million_tokens(price, blocks[0].variant, throughput) if blocks else None


INTER_TOKEN_LATENCY = Metric(
    name="InterTokenLatency",
    field="inter_token_latency_s",
    title="Inter-token latency",
    label="ITL",
    unit=MILLISECONDS_PER_TOKEN,
    digits=2,
    formula="(cK - c1) / (N - n1)",
    absent="the output came in one chunk, or the server counts no tokens",
    better="lower",
    has_speedup=True,
)
TTFT = Metric(
    name="TTFT",
    field="ttft_s",
    title="Time to first token",
    label="TTFT",
    unit=MILLISECONDS,
    formula="c1 - t0",
    better="lower",
)
END_TO_END_LATENCY = Metric(
    name="EndToEndLatency",
    field="end_to_end_latency_s",
    title="End-to-end latency",
    label="E2E",
    unit=MILLISECONDS,
    formula="cK - t0",
    better="lower",
    has_speedup=True,
)
REQUEST_OUTPUT_THROUGHPUT = Metric(
    name="RequestOutputThroughput",
    field="request_output_throughput_token_per_s",
    title="Output throughput of a request",
    unit=TOKENS_PER_SECOND,
    formula="N / E2E",
    absent="the server counts no tokens",
    better="higher",
)
OUTPUT_THROUGHPUT = Metric(
    field="output_throughput_token_per_s",
    title="Output throughput of a variant",
    label="tokens/s",
    unit=TOKENS_PER_SECOND,
    formula="all tokens / (last end - first start) of each block, blocks put together",
    absent="no request finished",
    better="higher",
    of_request=False,
    pooled=_throughput,
)
TOKENS_PER_STEP = Metric(
    name="TokensPerStep",
    field="tokens_per_step",
    title="Output tokens per step",
    label="tokens/step",
    unit=TOKENS,
    digits=2,
    formula="(N - n1) / (K - 1); of a variant: both sums over its requests",
    absent="one chunk only",
    better="higher",
    pooled=_tokens_per_step,
)
ACCEPTANCE_RATE = Metric(
    name="AcceptanceRate",
    field="acceptance_rate_counted",
    title="Acceptance rate",
    label="acceptance",
    unit=PERCENT,
    formula="accepted / drafted tokens, the server's counters over a block, stored at its end",
    absent="the server has no counters, or drafted nothing",
    better="higher",
    of_request=False,
    speculative_only=True,
    pooled=_acceptance,
)
COST = Metric(
    field="usd_per_million_output_tokens",
    title="Cost of a million output tokens",
    label="USD/M tokens",
    unit=US_DOLLARS,
    digits=2,
    formula="price of a node x share of the node / output throughput of the variant",
    absent="the experiment has no price",
    better="lower",
    of_request=False,
    pooled=_cost,
)
INPUT_TOKENS = Metric(
    name="InputTokens",
    field="number_input_tokens",
    title="Input tokens",
    unit=TOKENS,
    formula="the server's usage",
    absent="the server sends none",
    better=None,
)
OUTPUT_TOKENS = Metric(
    name="OutputTokens",
    field="number_output_tokens",
    title="Output tokens",
    unit=TOKENS,
    formula="the server's usage (N)",
    absent="the server sends none",
    better=None,
)
LLMPERF_INTER_TOKEN_LATENCY = Metric(
    field="llmperf_inter_token_latency_s",
    title="Inter-token latency by llmperf's definition",
    unit=MILLISECONDS,
    digits=2,
    formula="(cK - t0) / number of events",
    better=None,
)
# 1 or 0 a request, so that a minute without errors is a point and not a gap: Sum is the number of
# failed requests, Average their share.
ERRORS = Metric(
    name="Errors",
    field="failed",
    title="Failed requests",
    unit=COUNT,
    formula="1 for a request that failed, else 0",
    absent="never",
    better="lower",
    every_request=True,
)

# In the order of the report's columns and the dashboard's graphs.
METRICS = (
    INTER_TOKEN_LATENCY,
    TTFT,
    END_TO_END_LATENCY,
    REQUEST_OUTPUT_THROUGHPUT,
    OUTPUT_THROUGHPUT,
    TOKENS_PER_STEP,
    ACCEPTANCE_RATE,
    COST,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    LLMPERF_INTER_TOKEN_LATENCY,
    ERRORS,
)


def shown_latencies() -> tuple[Metric, ...]:
    """What the report shows with quantiles and over time."""
    return tuple(metric for metric in METRICS if metric.label and metric.is_latency)


def with_speedup() -> tuple[Metric, ...]:
    """What the verdict states a speedup of."""
    return tuple(metric for metric in METRICS if metric.has_speedup)


def published() -> tuple[Metric, ...]:
    """What CloudWatch stores."""
    return tuple(metric for metric in METRICS if metric.name)


def dimension_values(block: BlockResult) -> dict[str, str]:
    """The dimensions of a block's metrics, in the order of `DIMENSIONS`."""
    values = (block.experiment, block.variant, block.prompt_class)
    return dict(zip(DIMENSIONS, values, strict=True))
