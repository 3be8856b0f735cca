"""The CloudWatch metrics: ONE definition, used by publisher, dashboard and rehearsal.

Standard library only. Every metric has the three `DIMENSIONS`, is stored a minute at a time and is
stamped with the request's own start. All figures of a block come from the same requests, those
that `count` (`RequestRecord.counts`); only `Errors` looks at every request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from draftworth.records.results import BlockResult, RequestRecord

NAMESPACE = "Draftworth"
DIMENSIONS = ("Experiment", "Variant", "PromptClass")

# The members of CloudWatch's StandardUnit that are used here.
Unit = Literal["Milliseconds", "Count/Second", "Count", "Percent", "None"]

_MS_PER_SECOND = 1000.0
_NANOSECOND_IN_MS_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One CloudWatch metric.

    name: as CloudWatch stores it.
    unit: CloudWatch's unit of the stored values.
    title: for a person, with the unit where the axis needs one.
    field: the `RequestRecord` field that it comes from, None if it does not come from one field.
    scale: stored value = field x scale.
    """

    name: str
    unit: Unit
    title: str
    field: str | None = None
    scale: float = 1.0

    def of(self, record: RequestRecord) -> float | None:
        """The stored value of one request that counts; None if it was not measured.

        Times are rounded to the nanosecond, the resolution of the clock that took them.
        """
        if self.field is None:
            raise TypeError(f"{self.name} does not come from a field of a request")
        value: float | None = getattr(record, self.field)
        if value is None:
            return None
        if self.unit == "Milliseconds":
            return round(value * self.scale, _NANOSECOND_IN_MS_DIGITS)
        return float(value * self.scale)


TTFT = Metric(
    name="TTFT",
    unit="Milliseconds",
    title="Time to first token (ms)",
    field="ttft_s",
    scale=_MS_PER_SECOND,
)
INTER_TOKEN_LATENCY = Metric(
    name="InterTokenLatency",
    unit="Milliseconds",
    title="Inter-token latency (ms per token)",
    field="inter_token_latency_s",
    scale=_MS_PER_SECOND,
)
END_TO_END_LATENCY = Metric(
    name="EndToEndLatency",
    unit="Milliseconds",
    title="End-to-end latency (ms)",
    field="end_to_end_latency_s",
    scale=_MS_PER_SECOND,
)
REQUEST_OUTPUT_THROUGHPUT = Metric(
    name="RequestOutputThroughput",
    unit="Count/Second",
    title="Output throughput of a request (tokens/s)",
    field="request_output_throughput_token_per_s",
)
INPUT_TOKENS = Metric(
    name="InputTokens", unit="Count", title="Input tokens", field="number_input_tokens"
)
OUTPUT_TOKENS = Metric(
    name="OutputTokens", unit="Count", title="Output tokens", field="number_output_tokens"
)
TOKENS_PER_STEP = Metric(
    name="TokensPerStep", unit="Count", title="Output tokens per step", field="tokens_per_step"
)
# One value a block, at its end: accepted / drafted tokens by the server's counters, 0 to 100.
# Absent when the server has no counters or drafted nothing.
ACCEPTANCE_RATE = Metric(
    name="AcceptanceRate", unit="Percent", title="Acceptance rate (%)", scale=100.0
)
# One value a request, 1 if it failed and 0 if not, so that a minute without errors is a point and
# not a gap: Sum is the number of failed requests, Average their share. A request whose timing is
# excluded has not failed.
ERRORS = Metric(name="Errors", unit="Count", title="Failed requests")

REQUEST_METRICS = (
    TTFT,
    INTER_TOKEN_LATENCY,
    END_TO_END_LATENCY,
    REQUEST_OUTPUT_THROUGHPUT,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    TOKENS_PER_STEP,
)
METRICS = (*REQUEST_METRICS, ACCEPTANCE_RATE, ERRORS)


def dimension_values(block: BlockResult) -> dict[str, str]:
    """The dimensions of a block's metrics, in the order of `DIMENSIONS`."""
    values = (block.experiment, block.variant, block.prompt_class)
    return dict(zip(DIMENSIONS, values, strict=True))


def acceptance_rate_percent(block: BlockResult) -> float | None:
    """The stored value of `ACCEPTANCE_RATE`; None without counters."""
    rate = block.speculation.acceptance_rate if block.speculation is not None else None
    return None if rate is None else rate * ACCEPTANCE_RATE.scale
