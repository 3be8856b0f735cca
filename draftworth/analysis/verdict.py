"""The verdict: what a token costs with speculation in the user's traffic, and every rule of it.

Its cost ratio with the interval is the noise floor of a run's verdicts. What `clears` means, and
what happens to a verdict that does not: docs/decisions/0019-between-repetitions.md.

The decision is about the cost ratio: variant / baseline of what an output token costs (`ratios`).
Latencies stand beside it as what they are, and bound it: a verdict holds only inside the limits of
the user's service. Why it is not the ratio of inter-token latencies: docs/decisions/0015.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import MANY_REPETITIONS, MIN_PROMPTS
from draftworth.analysis.limits import LimitCheck, limit_check, why_not_comparable
from draftworth.analysis.outputs import Likeness, likeness, output_pairs
from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.analysis.ratios import (
    log_cost_ratio,
    log_ratio_of_sums,
    mean_of,
    ratio_of_quantiles,
    ratio_of_typical,
)
from draftworth.analysis.statistics import Estimate, within
from draftworth.analysis.summary import summarize
from draftworth.metrics import definitions
from draftworth.metrics.definitions import COST, INTER_TOKEN_LATENCY, TTFT, Metric
from draftworth.records.findings import Judgement
from draftworth.records.likelihoods import AnswersCheck
from draftworth.records.load import PoissonLoad
from draftworth.records.results import AS_SHIPPED, CONTROL, BlockResult, Limits, Price
from draftworth.records.transcripts import Transcripts


def without_control(
    blocks: Sequence[BlockResult],
) -> tuple[tuple[BlockResult, ...], tuple[BlockResult, ...]]:
    """The blocks that variants are judged by, and those of the control, of both its servers.

    While a control is measured a variant is down, so the baseline's blocks of that time are not
    beside any of its.
    """
    rounds = {_round(block) for block in blocks if block.variant == CONTROL}
    return (
        tuple(block for block in blocks if _round(block) not in rounds),
        tuple(block for block in blocks if _round(block) in rounds),
    )


def _round(block: BlockResult) -> tuple[object, ...]:
    return block.run_id, block.load, block.round


def noise_floor(
    control: Sequence[BlockResult], traffic: Traffic, *, baseline: str, limits: Limits
) -> Estimate | None:
    """What a token costs on the baseline's second server / on its first.

    None: no interval, or of requests that are not comparable.
    """
    if why_not_comparable(control, traffic, limits, (baseline, CONTROL)):
        return None
    pairs = paired(control, traffic, variant=CONTROL, baseline=baseline)
    found = log_cost_ratio(pairs, traffic)
    floor = found.estimate() if found else None
    return floor if floor and floor.low is not None else None


def why_no_floor(
    control: Sequence[BlockResult], traffic: Traffic, *, baseline: str, limits: Limits
) -> str:
    """Why what the control measured of a traffic gives no noise floor; empty if it gives one."""
    if why := why_not_comparable(control, traffic, limits, (baseline, CONTROL)):
        return why
    if noise_floor(control, traffic, baseline=baseline, limits=limits):
        return ""
    return f"its pairs in {traffic.label} give no interval"


def clears(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> bool | None:
    """Whether a verdict's interval lies beyond the noise floor, on the side that it speaks of.

    None of a verdict that is not on the cost, and where there is no interval of either.
    """
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    if floor is None or floor.low is None or floor.high is None:
        return None
    if judgement == "cheaper per token":
        return ratio.high < floor.low
    return floor.high < ratio.low if judgement == "dearer" else None


def why_not_decided(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> str:
    """Why a verdict on the cost is none beside its noise floor; empty where it may stand.

    Where two servers without speculation are shown to differ, and a variant does not by more, what
    it differs by is no effect of speculation.
    """
    if clears(judgement, ratio, floor) is not False:
        return ""
    if floor is None or floor.low is None or floor.high is None or floor.low <= 1 <= floor.high:
        return ""
    return (
        f", but on a second server without speculation it costs {floor.low - 1:+.1%} to "
        f"{floor.high - 1:+.1%}: so much may be no effect of speculation"
    )


_NO_LIMITS = Limits()
_NO_TRANSCRIPTS: Transcripts = {}
# A cost within a factor of 1.05 of the baseline's is no gain and no loss worth a second model.
INDIFFERENCE = 0.05
# TTFT counts as unchanged when it is shown to be within a factor of 1.1 of the baseline's.
TTFT_MARGIN = 0.1
# Two one-sided tests at 3.5%: at the margin itself `unchanged` is then said in at most 5% of the
# planted runs (docs/calibration.md), where tests at 5% said it in up to 6%.
TTFT_CONFIDENCE = 0.93
TTFT_TAIL = 0.95


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One variant against the baseline in a traffic.

    cost_ratio: variant / baseline of the cost of an output token; None where it cannot be told.
    floor: the noise floor: what two servers without speculation differ by; None: not measured.
    reason_has_floor: the reason gives it already.
    compared_outputs: pairs in which there is a text to compare; none of outputs that were sampled.
    likeness: beside the control's.
    speedups: baseline / variant of the means of every metric that has one.
    ttft_ratio, ttft_p95_ratio: variant / baseline, typical and at the 95th percentile, with 93%
        intervals.
    baseline_usd, variant_usd: of a million output tokens; None without a price.
    """

    traffic: Traffic
    variant: str
    baseline: str
    pairs: int
    compared_outputs: int
    identical_outputs: int
    cost_ratio: Estimate | None
    speedups: Mapping[Metric, Estimate | None]
    ttft_ratio: Estimate | None
    ttft_p95_ratio: Estimate | None
    baseline_usd: float | None
    variant_usd: float | None
    judgement: Judgement
    reason: str
    floor: Estimate | None = None
    reason_has_floor: bool = False
    likeness: Likeness | None = None

    @property
    def clears_floor(self) -> bool | None:
        """Whether a verdict on the cost lies beyond the noise floor; None: there is either not."""
        return clears(self.judgement, self.cost_ratio, self.floor)

    @property
    def name(self) -> str:
        """The variant, and what it is compared with where that is not the run's baseline."""
        against = f" against {AS_SHIPPED}" if self.baseline == AS_SHIPPED else ""
        return f"{self.variant}{against}"

    @property
    def prompts(self) -> int:
        """Different prompts that decided."""
        return self.cost_ratio.prompts if self.cost_ratio else 0

    @property
    def itl_speedup(self) -> Estimate | None:
        """Of decoding alone."""
        return self.speedups[INTER_TOKEN_LATENCY]

    @property
    def ttft_unchanged(self) -> bool | None:
        """Whether the typical TTFT is shown to be within `TTFT_MARGIN`; None: no interval."""
        return within(self.ttft_ratio, factor=1 + TTFT_MARGIN)

    @property
    def ttft_p95_unchanged(self) -> bool | None:
        """The same of the tail, which may move alone."""
        return within(self.ttft_p95_ratio, factor=1 + TTFT_MARGIN)

    @property
    def identical_share(self) -> float | None:
        """Pairs with the same output / pairs whose outputs can be compared; None: not checked."""
        return self.identical_outputs / self.compared_outputs if self.compared_outputs else None


def judge(cost_ratio: Estimate | None, check: LimitCheck) -> tuple[Judgement, str]:
    """The verdict and why, in one sentence: the first rule that applies."""
    if check.kept is False:
        return "outside the limits", check.reason
    if cost_ratio is None:
        return "inconclusive", "no prompt of each class has its tokens counted on both sides"
    if cost_ratio.low is None or cost_ratio.high is None:
        one = cost_ratio.samples == 1
        given = "one pair gives" if one else f"{cost_ratio.samples} pairs give"
        return "inconclusive", (
            f"{given} no interval: it takes {MIN_PROMPTS} prompts and two "
            "rounds, and more where they differ much"
        )
    where = spoken_of(cost_ratio)
    if cost_ratio.low > 1 + INDIFFERENCE:
        return "dearer", f"a token costs at least {cost_ratio.low - 1:.0%} more{where}"
    if check.kept is None:
        return "inconclusive", check.reason
    if cost_ratio.high < 1 / (1 + INDIFFERENCE):
        return "cheaper per token", f"a token costs at least {1 - cost_ratio.high:.0%} less{where}"
    if cost_ratio.low >= 1 / (1 + INDIFFERENCE) and cost_ratio.high <= 1 + INDIFFERENCE:
        return "no difference", f"a token costs the same to {INDIFFERENCE:.0%} either way{where}"
    return "inconclusive", (
        f"{cost_ratio.low - 1:+.0%} to {cost_ratio.high - 1:+.0%}{where} does not decide it"
    )


def spoken_of(ratio: Estimate) -> str:
    """Of which starts of the servers an interval speaks; empty where of any like these."""
    if ratio.repetitions >= MANY_REPETITIONS:
        return ""
    several = f" in these {ratio.repetitions} repetitions"
    return " in this run" if ratio.repetitions < 2 else several


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
) -> Comparison:
    """The verdict on one variant in a traffic.

    sampled: outputs were drawn, not greedy. control: the blocks of the control's rounds.
    answers: whether they are the target's, where somebody looked.
    """
    pairs = counting(paired(blocks, traffic, variant=variant, baseline=baseline))
    ratio = cost_ratio(blocks, traffic, variant=variant, baseline=baseline, price=price)
    floor = noise_floor(control, traffic, baseline=baseline, limits=limits)
    judgement, reason = _judged(blocks, traffic, ratio, limits, (baseline, variant))
    sides = [check for check in answers if check.variant in (baseline, variant)]
    strange = [check.words for check in sides if check.is_the_targets is False]
    if strange:
        judgement, reason = "inconclusive", "; ".join(strange)
    by_floor = why_not_decided(judgement, ratio, floor)
    if by_floor:
        judgement, reason = "inconclusive", f"{reason}{by_floor}"
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
        speedups={m: _speedup(pairs, traffic, m) for m in definitions.with_speedup()},
        ttft_ratio=ratio_of_typical(pairs, TTFT.field, confidence=TTFT_CONFIDENCE),
        ttft_p95_ratio=ratio_of_quantiles(plain, drafted, TTFT_TAIL, confidence=TTFT_CONFIDENCE),
        baseline_usd=_usd(blocks, traffic, baseline, price),
        variant_usd=_usd(blocks, traffic, variant, price),
        judgement=judgement,
        reason=reason,
        floor=floor,
        reason_has_floor=bool(by_floor),
        likeness=likeness(outputs, output_pairs(equals, transcripts)),
    )


def cost_ratio(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    *,
    variant: str,
    baseline: str,
    price: Price | None = None,
) -> Estimate | None:
    """Variant / baseline of the cost of an output token, with its interval."""
    pairs = paired(blocks, traffic, variant=variant, baseline=baseline)
    known = log_cost_ratio(pairs, traffic)
    return known.times(_share_ratio(price, variant, baseline)).estimate() if known else None


def _judged(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    ratio: Estimate | None,
    limits: Limits,
    variants: tuple[str, str],
) -> tuple[Judgement, str]:
    if why := why_not_comparable(blocks, traffic, limits, variants):
        return "inconclusive", why
    check = limit_check(blocks, traffic, limits, variants[1])
    if not isinstance(traffic.load, PoissonLoad):
        return judge(ratio, check)
    if not limits.are_on_latencies:
        return "inconclusive", (
            "arrivals at a rate have no cost per token; with workload.limits the answer is the "
            "highest rate that keeps them"
        )
    if check.kept:
        return "within the limits", "every latency limit is kept at this rate"
    return ("inconclusive" if check.kept is None else "outside the limits"), check.reason


def _speedup(pairs: Sequence[Pair], traffic: Traffic, metric: Metric) -> Estimate | None:
    """How many times as good the variant's mean is as the baseline's."""
    found = log_ratio_of_sums(pairs, traffic.weights, mean_of(metric.field))
    if found is None:
        return None
    ratio = found.estimate()
    return ratio if metric.better == "higher" else ratio.inverse


def _share_ratio(price: Price | None, variant: str, baseline: str) -> float:
    """Of the parts of a node that both take; 1 where they are not known."""
    shares = price.node_shares if price else {}
    own, others = shares.get(variant), shares.get(baseline)
    return own / others if own and others else 1.0


def _usd(
    blocks: Sequence[BlockResult], traffic: Traffic, variant: str, price: Price | None
) -> float | None:
    """Of a million output tokens of the traffic."""
    costs = {
        group.prompt_class: summarize(blocks, group, variant, price).value(COST)
        for group in traffic.groups
    }
    known = [traffic.weights[name] * cost for name, cost in costs.items() if cost is not None]
    return sum(known) if len(known) == len(costs) else None
