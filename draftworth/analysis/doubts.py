"""Why requests allow no verdict: a type per reason; its sentence: `report/reason_sentences.py`."""

from collections.abc import Mapping
from dataclasses import dataclass

from draftworth.analysis.likelihood_check import AnswersCheck
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group


@dataclass(frozen=True, kw_only=True)
class SeveralModels:
    """Answers in a group name several models. models: the names by variant."""

    group: Group
    models: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class ManyExcluded:
    """Too large a share (0 to 1) of a variant's samples in a group is excluded."""

    group: Group
    variant: str
    share: float


@dataclass(frozen=True, kw_only=True)
class ManyFailed:
    """Too many requests of a variant in a group failed, `timed_out` of them by time-out.

    allowed_share: the share (0 to 1) of requests that may fail.
    """

    group: Group
    variant: str
    failed: int
    requests: int
    timed_out: int
    allowed_share: float


@dataclass(frozen=True, kw_only=True)
class FailedUnequally:
    """Requests of two variants failed in shares that differ by more than chance.

    counts: (failed requests, all requests) by variant.
    """

    group: Group
    counts: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class CountsDiffer:
    """Baseline and variant count different numbers of tokens in `outputs` equal texts."""

    outputs: int
    baseline_tokens: int
    variant_tokens: int


@dataclass(frozen=True, kw_only=True)
class BeyondSpeculation:
    """A variant is `times` as fast as the baseline, and a step yields at most `tokens` tokens."""

    times: float
    tokens: int


@dataclass(frozen=True, kw_only=True)
class NotTheTargets:
    """Outputs are not the target model's. checks: those that show it, at least one."""

    checks: tuple[AnswersCheck, ...]


@dataclass(frozen=True, kw_only=True)
class NoFloorInterval:
    """The control's pairs give no interval in a group."""

    group: str


@dataclass(frozen=True, kw_only=True)
class LatencyAtLimit:
    """A latency that is not shown to keep its limit.

    latency: `TTFT`, `ITL` or `E2E`. p95: its 95th percentile in seconds; None: not measured.
    limit_s: seconds.
    """

    latency: str
    group: Group
    variant: str
    p95: Estimate | None
    limit_s: float


# Requests of one variant, or of two, that allow no comparison.
NotComparable = SeveralModels | ManyExcluded | ManyFailed | FailedUnequally
# A comparison whose result is not believed.
NotBelieved = CountsDiffer | BeyondSpeculation
