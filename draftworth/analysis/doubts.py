"""Declares a type for each reason why requests allow no verdict.

`report/reason_sentences.py` has the sentence for each type.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from draftworth.analysis.likelihood_check import AnswersCheck
from draftworth.analysis.statistics import Estimate, interval_of
from draftworth.analysis.summary import Group


@dataclass(frozen=True, kw_only=True)
class SeveralModels:
    """Answers in a group (a prompt class at one load) name several models.

    models: by variant, the model names in its answers.
    """

    group: Group
    models: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class ManyExcluded:
    """Too many requests of a variant in a group have a timing that cannot be trusted.

    share: the share (0 to 1) of the requests that did not fail.
    """

    group: Group
    variant: str
    share: float


@dataclass(frozen=True, kw_only=True)
class ManyFailed:
    """Too many requests of a variant in a group (a prompt class at one load) failed.

    failed: number of failed requests, `timed_out` of them by time-out. requests: number of all.
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
    """The servers of baseline and variant count different numbers of tokens in equal texts.

    outputs: number of pairs of equal outputs. baseline_tokens, variant_tokens: the tokens of all
    these outputs, as each server counts them.
    """

    outputs: int
    baseline_tokens: int
    variant_tokens: int


@dataclass(frozen=True, kw_only=True)
class BeyondSpeculation:
    """A variant is faster than speculation can make it.

    times: how many times as fast as the baseline it is. tokens: the most tokens that a step can
    yield, which is also the largest speedup that speculation can give.
    """

    times: float
    tokens: int


@dataclass(frozen=True, kw_only=True)
class NotSteadyYet:
    """The cost ratio changes in the rounds after the servers' start: one of them still warmed up.

    first_times: the cost ratio in the first round / that of rounds long after the start.
    """

    first_times: float


@dataclass(frozen=True, kw_only=True)
class PromptsCached:
    """A server had prompt tokens in its cache, in a run that is about prompts that are new to it.

    share: the share (0 to 1) of the prompt tokens of `variant`, as its server counts them.
    """

    variant: str
    share: float


@dataclass(frozen=True, kw_only=True)
class RepeatsFaster:
    """A server that counts no cached tokens answers a prompt sooner when it is sent again.

    times: TTFT / ITL when a prompt is sent for the first time, divided by that when it is sent
    again, as the geometric mean over `prompts` prompts.
    """

    variant: str
    times: float
    prompts: int


@dataclass(frozen=True, kw_only=True)
class NotTheTargets:
    """Outputs of the variant or baseline are not the target model's.

    checks: the checks that show this, at least one.
    """

    checks: tuple[AnswersCheck, ...]


@dataclass(frozen=True, kw_only=True)
class NoFloorInterval:
    """The noise floor has no interval, because there are too few pairs of requests to the control.

    The control is the baseline on a second server.
    group: the label of the prompt classes and the load that the noise floor is of.
    """

    group: str


@dataclass(frozen=True, kw_only=True)
class LatencyAtLimit:
    """A latency of one variant in a group (a prompt class at one load), and its limit.

    latency: `TTFT`, `ITL` or `E2E`. p95: its 95th percentile in seconds; None: not measured.
    limit_s: seconds.
    """

    latency: str
    group: Group
    variant: str
    p95: Estimate | None
    limit_s: float

    @property
    def is_kept(self) -> bool | None:
        """Whether the limit is shown to be kept (True) or broken (False); None: neither is."""
        ends = interval_of(self.p95)
        if ends is None or ends[0] <= self.limit_s < ends[1]:
            return None
        return ends[1] <= self.limit_s


@dataclass(frozen=True, kw_only=True)
class ShortWarmup:
    """Blocks of a variant in a group begin with too few warm-up requests for the request rate.

    They begin on an idle server, so their latencies read too low.
    sent: the fewest warm-up requests of a block. needed: at least this many are needed; maybe more,
    because the queue that this is computed from also reads too short after a short warm-up.
    """

    group: Group
    variant: str
    sent: int
    needed: int


# Reasons why the requests of one variant, or of two, allow no comparison.
NotComparable = SeveralModels | ManyExcluded | ManyFailed | FailedUnequally
# Reasons why prompts were not new to a server that is to answer new prompts.
NotCold = PromptsCached | RepeatsFaster
# Reasons why the result of a comparison is not believed.
NotBelieved = CountsDiffer | BeyondSpeculation | NotCold | NotSteadyYet
