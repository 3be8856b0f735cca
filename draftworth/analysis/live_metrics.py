"""What CloudWatch has of a winner that serves: the figures of its probes, at the load `live`.

Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from draftworth.analysis.metrics import (
    ACCEPTANCE_RATE,
    DIMENSIONS,
    END_TO_END_LATENCY,
    ERRORS,
    INTER_TOKEN_LATENCY,
    LIVE_METRICS,
    TOKENS_PER_STEP,
    TTFT,
    Metric,
)
from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.records.live import LiveClass, LiveProbe

# Whatever its users send.
LIVE = "live"
# Without a variant: an alarm is made before any has won.
ALARM_DIMENSIONS = DIMENSIONS[:1]
MARGIN, DRIFTED = LIVE_METRICS
# A probe's own words for figures that requests have.
_OF_LIVE_CLASS = {
    "ttft_s": TTFT,
    "itl_s": INTER_TOKEN_LATENCY,
    "e2e_s": END_TO_END_LATENCY,
    "tokens_per_step": TOKENS_PER_STEP,
}


def charged_live(classes: int) -> int:
    """Metrics that CloudWatch charges of a winner that serves so many prompt classes."""
    of_traffic = len((TOKENS_PER_STEP, ACCEPTANCE_RATE, *LIVE_METRICS))
    return classes * len((*_OF_LIVE_CLASS, ERRORS)) + of_traffic + len(LIVE_METRICS)


def published_live(
    probe: LiveProbe,
) -> Iterator[tuple[dict[str, str], Mapping[Metric, Counter[float]]]]:
    """Dimensions, and how often each value is there: of each class, of all traffic, and of the
    experiment alone."""
    for found in probe.classes:
        yield _live_dimensions(probe, found.prompt_class), _values_of_class(found)
    of_traffic = {
        TOKENS_PER_STEP: probe.tokens_per_step,
        ACCEPTANCE_RATE: probe.acceptance,
        MARGIN: probe.margin,
        DRIFTED: float(probe.drifted),
    }
    yield _live_dimensions(probe, TRAFFIC_MIX), _once(of_traffic)
    alone = {MARGIN: probe.margin, DRIFTED: float(probe.drifted)}
    yield dict.fromkeys(ALARM_DIMENSIONS, probe.experiment), _once(alone)


def _live_dimensions(probe: LiveProbe, prompt_class: str) -> dict[str, str]:
    values = (probe.experiment, probe.variant, prompt_class, LIVE)
    return dict(zip(DIMENSIONS, values, strict=True))


def _values_of_class(found: LiveClass) -> dict[Metric, Counter[float]]:
    values = {metric: getattr(found, field) for field, metric in _OF_LIVE_CLASS.items()}
    requests = {1.0: found.failed, 0.0: found.requests - found.failed}
    failed = Counter({value: count for value, count in requests.items() if count})
    return _once(values) | ({ERRORS: failed} if failed else {})


def _once(values: Mapping[Metric, float | None]) -> dict[Metric, Counter[float]]:
    stored = {metric: metric.stored(value) for metric, value in values.items()}
    return {metric: Counter([value]) for metric, value in stored.items() if value is not None}
