"""Judges whether speculation lowers the cost of a token in the user's traffic: the verdict.

The verdict is about the cost ratio: the cost of an output token with the variant / with the
baseline (`ratios`). `cheaper` and `no difference` also need that the latency limits of the user's
service are kept. docs/decisions/0015-the-verdict.md says why the verdict is not about the ratio of
inter-token latencies. If a control (the baseline on a second server) was measured, the variant has
to differ from the baseline by more than the control does, which is the noise floor (`control`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from draftworth.analysis import rare, ratios, statistics
from draftworth.analysis.control import noise_floor
from draftworth.analysis.doubts import NotComparable, NotTheTargets, SeveralModels, ShortWarmup
from draftworth.analysis.first_rounds import change_after_start
from draftworth.analysis.likelihood_check import AnswersCheck
from draftworth.analysis.limits import LimitCheck, limit_check, why_not_comparable
from draftworth.analysis.output_differences import Likeness, likeness, output_pairs
from draftworth.analysis.pairing import Pair, Traffic, counting, paired, weighted
from draftworth.analysis.plausibility import why_not_believed
from draftworth.analysis.prefix_cache import ColdEvidence, why_not_cold
from draftworth.analysis.spread import Spread, spread
from draftworth.decision.reasons import (
    CostDecides,
    CostPlace,
    Doubt,
    KeepsLimits,
    LimitDecides,
    NoCostAtRate,
    NoTokens,
    Reason,
    TooFewPrompts,
)
from draftworth.metrics import definitions
from draftworth.metrics.definitions import COST, INTER_TOKEN_LATENCY, TTFT, Metric
from draftworth.records.judgement import Judgement
from draftworth.records.results import AS_SHIPPED, CONTROL, BlockResult, Limits, Price
from draftworth.records.transcripts import Transcripts

_NO_LIMITS = Limits()
_NO_TRANSCRIPTS: Transcripts = {}
# A cost within a factor of 1.05 of the baseline's counts as no difference: saving less is not worth
# serving a second model.
INDIFFERENCE = 0.05
# TTFT counts as unchanged if the whole interval of its ratio (variant / baseline) is within a
# factor of 1.1, with at least 32 prompts. In simulations where the true ratio is at this margin
# because 15% of prompts wait 1.5 times as long, 5% of runs with 32 prompts say `unchanged`, and 8%
# of those with 16.
TTFT_MARGIN, UNCHANGED_PROMPTS = 0.1, 32
TTFT_TAIL = 0.95


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One variant compared with the baseline in a traffic.

    pairs: number of pairs of requests that both succeeded with a timing that can be trusted.
    compared_outputs, identical_outputs: number of pairs whose outputs were compared (0 if outputs
        were sampled), and of those with identical outputs.
    cost_ratio: the variant's cost of an output token / the baseline's; None: the load has no cost
        per token, or tokens are not counted. error: the error of log(`cost_ratio`); None: not
        known.
    speedups: by metric, by which factor the variant's mean is better than the baseline's.
    ttft_ratio: the geometric mean over pairs of the variant's TTFT / the baseline's.
    ttft_p95_ratio: the 95th percentile of the variant's TTFT / that of the baseline's.
    baseline_usd, variant_usd: cost in US dollars of a million output tokens; None without a price.
    judgement, reason: the verdict, and why it is so. doubt: why the figures are not believed,
        whether or not that is the reason for the verdict; None: nothing shows that.
    extremes: the requests that took far longer than usual, if only one side has some.
    without_extremes: the cost ratio without the pairs that have such a request.
    floor: the noise floor: the cost ratio of the control (the baseline on a second server) to the
        baseline; None: not measured.
    by_floor: whether the verdict is inconclusive only because of the noise floor.
    shows_warm_ups: whether there are enough rounds to show a server that warms up.
    likeness: how much the variant's outputs, and the control's, are like the baseline's.
    """

    traffic: Traffic
    variant: str
    baseline: str
    pairs: int
    compared_outputs: int
    identical_outputs: int
    cost_ratio: statistics.Estimate | None
    speedups: Mapping[Metric, statistics.Estimate | None]
    ttft_ratio: statistics.Estimate | None
    ttft_p95_ratio: statistics.Estimate | None
    baseline_usd: float | None
    variant_usd: float | None
    judgement: Judgement
    reason: Reason
    doubt: Doubt | None = None
    error: Spread | None = None
    extremes: rare.Extremes | None = None
    without_extremes: statistics.Estimate | None = None
    floor: statistics.Estimate | None = None
    by_floor: bool = False
    shows_warm_ups: bool = True
    likeness: Likeness | None = None

    @property
    def clears_floor(self) -> bool | None:
        return clears(self.judgement, self.cost_ratio, self.floor)

    @property
    def obstacle(self) -> Doubt | NotComparable | None:
        """Why more requests alone would decide nothing; None: nothing shows that they would not."""
        return self.doubt or (self.reason if isinstance(self.reason, NotComparable) else None)

    @property
    def name(self) -> str:
        """The variant's name, with the baseline's added if that is not the run's own baseline.

        The other baseline that a run can have is the one at the engine's default settings.
        """
        against = f" against {AS_SHIPPED}" if self.baseline == AS_SHIPPED else ""
        return f"{self.variant}{against}"

    @property
    def prompts(self) -> int:
        return self.cost_ratio.prompts if self.cost_ratio else 0

    @property
    def itl_speedup(self) -> statistics.Estimate | None:
        return self.speedups[INTER_TOKEN_LATENCY]

    @property
    def ttft_unchanged(self) -> bool | None:
        return _unchanged(self.ttft_ratio)

    @property
    def ttft_p95_unchanged(self) -> bool | None:
        return _unchanged(self.ttft_p95_ratio)

    @property
    def identical_share(self) -> float | None:
        """The share (0 to 1) of compared pairs with identical outputs; None: none were compared."""
        return self.identical_outputs / self.compared_outputs if self.compared_outputs else None


def _unchanged(ratio: statistics.Estimate | None) -> bool | None:
    """Return whether a ratio of TTFTs is shown to be within a factor of 1.1; None: no interval.

    Fewer prompts than `UNCHANGED_PROMPTS` do not show that, because a kind of prompt with another
    TTFT may be missing.
    """
    is_within = statistics.within(ratio, factor=1 + TTFT_MARGIN)
    return is_within and ratio is not None and ratio.prompts >= UNCHANGED_PROMPTS


def differs(ratio: statistics.Estimate | None) -> bool:
    """Return whether a ratio of TTFTs is shown to be beyond a factor of 1.1, either way."""
    ends = statistics.interval_of(ratio)
    return ends is not None and (ends[0] > 1 + TTFT_MARGIN or ends[1] < 1 / (1 + TTFT_MARGIN))


def judge(cost_ratio: statistics.Estimate | None, check: LimitCheck) -> tuple[Judgement, Reason]:
    """Return the verdict and its reason, from the cost ratio and the check of the latency limits.

    cost_ratio: the variant's cost of an output token / the baseline's; None: not known.
    """
    if check.latency and check.kept is False:
        return Judgement.OUTSIDE_LIMITS, LimitDecides(latency=check.latency)
    if cost_ratio is None:
        return Judgement.INCONCLUSIVE, NoTokens()
    if cost_ratio.interval is None:
        return Judgement.INCONCLUSIVE, TooFewPrompts()
    low, high = cost_ratio.interval
    place = _place_of(low, high)
    if check.latency and place is not CostPlace.HIGHER:
        return Judgement.INCONCLUSIVE, LimitDecides(latency=check.latency)
    reason = CostDecides(
        low=low, high=high, place=place, repetitions=cost_ratio.holds_for_repetitions
    )
    return _BY_COST.get(place, Judgement.INCONCLUSIVE), reason


_BY_COST = {
    CostPlace.HIGHER: Judgement.MORE_EXPENSIVE,
    CostPlace.LOWER: Judgement.CHEAPER,
    CostPlace.EQUAL: Judgement.NO_DIFFERENCE,
}


def _place_of(low: float, high: float) -> CostPlace:
    """Return where the interval of a cost ratio (variant / baseline) from low to high lies."""
    most = 1 + INDIFFERENCE
    if low > most:
        return CostPlace.HIGHER
    if high < 1 / most:
        return CostPlace.LOWER
    if low >= 1 / most and high <= most:
        return CostPlace.EQUAL
    return CostPlace.AROUND_ONE if low <= 1 <= high else CostPlace.BESIDE_ONE


def clears(
    judgement: Judgement, ratio: statistics.Estimate | None, floor: statistics.Estimate | None
) -> bool | None:
    """Return whether a variant differs from the baseline by more than the noise between servers.

    The noise floor is the cost ratio of two servers without speculation. For the verdict `CHEAPER`,
    the interval of the variant's cost ratio must be below the noise floor's interval; for
    `MORE_EXPENSIVE`, above it. None for other verdicts, or if either has no interval.
    """
    ends, noise = statistics.interval_of(ratio), statistics.interval_of(floor)
    if ends is None or noise is None:
        return None
    if judgement == Judgement.CHEAPER:
        return ends[1] < noise[0]
    return noise[1] < ends[0] if judgement == Judgement.MORE_EXPENSIVE else None


def hides_in_floor(
    judgement: Judgement, ratio: statistics.Estimate | None, floor: statistics.Estimate | None
) -> bool:
    """Return whether the noise floor makes a verdict on the cost inconclusive.

    The noise floor is the cost ratio of two servers without speculation. If these are shown to
    differ, and the variant does not differ from the baseline by more than they do, then nothing
    shows an effect of speculation.
    ratio: the variant's cost ratio. floor: the noise floor. None: not known.
    """
    noise = statistics.interval_of(floor)
    differ = noise is not None and not noise[0] <= 1 <= noise[1]
    return differ and clears(judgement, ratio, floor) is False


def compare(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    *,
    variant: str,
    baseline: str,
    limits: Limits = _NO_LIMITS,
    price: Price | None = None,
    sampled: bool = False,
    control: Sequence[BlockResult] = (),
    transcripts: Transcripts = _NO_TRANSCRIPTS,
    answers: Sequence[AnswersCheck] = (),
    confidence: float = statistics.CONFIDENCE,
    cold: ColdEvidence = ColdEvidence.COUNTS_OR_TTFT,
) -> Comparison:
    """Judge one variant against a baseline in a traffic.

    blocks: all measured blocks, without the control's rounds. sampled: whether the temperature was
    above 0. control: all blocks of the rounds with the control (the baseline on a second server).
    answers: for all variants, checks of whether their outputs are the target model's.
    confidence: that of all intervals of the comparison (0 to 1).
    cold: what shows that prompts were not new to a server, which leaves the cost open.
    """
    sent = paired(blocks, traffic, variant=variant, baseline=baseline)
    pairs = counting(sent)
    factor = ratios.share_ratio(price, variant, baseline)
    log_ratio = ratios.log_cost_ratio(sent, traffic, factor=factor)
    error = spread(log_ratio.parts) if log_ratio else None
    ratio = log_ratio.with_error(error, confidence=confidence) if log_ratio else None
    noise = noise_floor(control, traffic, baseline=baseline, limits=limits, confidence=confidence)
    floor = noise if isinstance(noise, statistics.Estimate) else None
    judgement, reason = _judged(
        blocks, traffic, ratio, limits, (baseline, variant), confidence=confidence
    )
    measured = [b for group in traffic.groups for b in group.blocks(blocks, variant)]
    start = change_after_start(pairs)
    doubt: Doubt | None = why_not_cold(blocks, traffic, (baseline, variant), cold)
    if traffic.load.has_cost_per_token:
        not_believed = why_not_believed(pairs, ratio, measured, price_ratio=factor)
        doubt = not_believed or doubt or start.doubt
    if doubt and _is_left_open_by_doubts(judgement, reason):
        judgement, reason = Judgement.INCONCLUSIVE, doubt
    if isinstance(reason, SeveralModels):
        doubt = reason
    if wrong := not_the_targets(answers, (baseline, variant)):
        judgement, reason, doubt = Judgement.INCONCLUSIVE, wrong, wrong
    by_floor = hides_in_floor(judgement, ratio, floor)
    if by_floor:
        judgement = Judgement.INCONCLUSIVE
    extremes = rare.extremes_of(sent, variant=variant, baseline=baseline)
    without = (
        ratios.log_cost_ratio(extremes.usual_pairs, traffic, factor=factor) if extremes else None
    )
    plain, drafted = (
        [p.sample(s) for p in pairs if (s := getattr(p, side).ttft_s)]
        for side in ("plain", "drafted")
    )
    outputs = () if sampled else output_pairs(pairs, transcripts)
    equals = counting(paired(control, traffic, variant=CONTROL, baseline=baseline))
    return Comparison(
        traffic=traffic,
        variant=variant,
        baseline=baseline,
        pairs=len(pairs),
        compared_outputs=len(outputs),
        identical_outputs=sum(output.identical for output in outputs),
        cost_ratio=ratio,
        speedups={m: _speedup(pairs, traffic, m, confidence) for m in definitions.with_speedup()},
        ttft_ratio=ratios.ratio_of_typical(pairs, TTFT.field, confidence=confidence),
        ttft_p95_ratio=ratios.ratio_of_quantiles(plain, drafted, TTFT_TAIL, confidence=confidence),
        baseline_usd=weighted(blocks, traffic, baseline, COST, price=price),
        variant_usd=weighted(blocks, traffic, variant, COST, price=price),
        judgement=judgement,
        reason=reason,
        doubt=doubt,
        error=error,
        extremes=extremes,
        without_extremes=without.estimate(confidence=confidence) if without else None,
        floor=floor,
        by_floor=by_floor,
        shows_warm_ups=start.shows_warm_ups,
        likeness=likeness(outputs, output_pairs(equals, transcripts)),
    )


def _is_left_open_by_doubts(judgement: Judgement, reason: Reason) -> bool:
    """Return whether doubts about the figures leave a verdict open, which would follow from them.

    A latency that breaks its limit breaks it without a prefix cache or a fast start all the more.
    Requests that cannot be compared are the first thing to mend.
    """
    if isinstance(reason, LimitDecides):
        return judgement != Judgement.OUTSIDE_LIMITS
    return isinstance(reason, CostDecides | TooFewPrompts | KeepsLimits | ShortWarmup)


def not_the_targets(
    answers: Iterable[AnswersCheck], sides: Collection[str]
) -> NotTheTargets | None:
    """Return the checks that show that outputs are not the target model's; None: there are none.

    answers: the checks of all variants. sides: the names of variant and baseline; only their
    checks are looked at.
    """
    checks = tuple(c for c in answers if c.variant in sides and c.is_the_targets is False)
    return NotTheTargets(checks=checks) if checks else None


def _judged(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    ratio: statistics.Estimate | None,
    limits: Limits,
    variants: tuple[str, str],
    *,
    confidence: float,
) -> tuple[Judgement, Reason]:
    if doubt := why_not_comparable(blocks, traffic, limits, variants):
        return Judgement.INCONCLUSIVE, doubt
    check = limit_check(blocks, traffic, limits, variants[1], confidence=confidence)
    if traffic.load.has_cost_per_token:
        return judge(ratio, check)
    if not limits.are_on_latencies:
        return Judgement.INCONCLUSIVE, NoCostAtRate()
    if check.warmup:
        return Judgement.INCONCLUSIVE, check.warmup
    if check.latency is None:
        return Judgement.WITHIN_LIMITS, KeepsLimits()
    broken = check.kept is False
    judgement = Judgement.OUTSIDE_LIMITS if broken else Judgement.INCONCLUSIVE
    return judgement, LimitDecides(latency=check.latency)


def _speedup(
    pairs: Sequence[Pair], traffic: Traffic, metric: Metric, confidence: float
) -> statistics.Estimate | None:
    values = ratios.mean_of(attrgetter(metric.field))
    log_ratio = ratios.log_ratio_of_sums(pairs, traffic.weights, values)
    if log_ratio is None:
        return None
    ratio = log_ratio.estimate(confidence=confidence)
    return ratio if metric.better == "higher" else ratio.inverse
