"""The rules of the verdict: whether speculation lowers the cost of a token in the user's traffic.

The verdict is on the cost ratio: the cost of an output token with the variant / with the baseline
(`ratios`). A verdict holds only if the latency limits of the user's service are kept.
docs/decisions/0015-the-verdict.md says why it is not on the ratio of inter-token latencies.

The noise floor is the cost ratio of two servers without speculation (the control).
docs/decisions/0019-between-repetitions.md says why a verdict has to clear the noise floor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis import ratios
from draftworth.analysis.clustering import MANY_REPETITIONS, MIN_PROMPTS
from draftworth.analysis.likelihoods import AnswersCheck
from draftworth.analysis.limits import LimitCheck, limit_check, why_not_comparable
from draftworth.analysis.outputs import Likeness, likeness, output_pairs
from draftworth.analysis.pairing import Pair, Traffic, counting, paired, weighted
from draftworth.analysis.statistics import Estimate, interval_of, within
from draftworth.metrics import definitions
from draftworth.metrics.definitions import COST, INTER_TOKEN_LATENCY, TTFT, Metric
from draftworth.records.findings import Judgement
from draftworth.records.results import AS_SHIPPED, CONTROL, BlockResult, Limits, Price
from draftworth.records.transcripts import Transcripts


def without_control(
    blocks: Sequence[BlockResult],
) -> tuple[tuple[BlockResult, ...], tuple[BlockResult, ...]]:
    """Return the blocks that variants are judged by, and all blocks of the control's rounds.

    In those rounds the control is compared with the baseline, and no variant is measured.
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
) -> tuple[Estimate | None, str]:
    """Return the cost ratio control / baseline with its interval, and an empty string.

    Without a noise floor, return None and the reason.
    """
    if why := why_not_comparable(control, traffic, limits, (baseline, CONTROL)):
        return None, why
    floor = cost_ratio(control, traffic, variant=CONTROL, baseline=baseline)
    if interval_of(floor):
        return floor, ""
    return None, f"its pairs in {traffic.label} give no interval"


def clears(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> bool | None:
    """Return whether the cost ratio's interval lies outside the noise floor, on the verdict's side.

    None if the verdict is neither cheaper nor more expensive, or if an interval is missing.
    """
    own, noise = interval_of(ratio), interval_of(floor)
    if own is None or noise is None:
        return None
    if judgement == "cheaper per token":
        return own[1] < noise[0]
    return noise[1] < own[0] if judgement == "more expensive" else None


def why_not_decided(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> str:
    """Say why the noise floor makes a verdict on the cost inconclusive; empty if it does not.

    If two servers without speculation are shown to differ, a variant that differs by no more than
    they do shows no effect of speculation.
    """
    noise = interval_of(floor)
    if clears(judgement, ratio, floor) is not False or noise is None or noise[0] <= 1 <= noise[1]:
        return ""
    return (
        f", but on a second server without speculation it costs {noise[0] - 1:+.1%} to "
        f"{noise[1] - 1:+.1%}: so much may be no effect of speculation"
    )


_NO_LIMITS = Limits()
_NO_TRANSCRIPTS: Transcripts = {}
# A cost within a factor of 1.05 of the baseline's counts as equal: not worth a second model.
INDIFFERENCE = 0.05
# TTFT counts as unchanged if its whole interval is within a factor of 1.1 of the baseline's.
TTFT_MARGIN = 0.1
# Two one-sided tests at 3.5%: if the true ratio is at the margin, at most 5% of simulated runs say
# `unchanged` (docs/calibration.md). With tests at 5%, up to 6% of these runs said so.
TTFT_CONFIDENCE = 0.93
TTFT_TAIL = 0.95


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One variant compared with the baseline in a traffic.

    cost_ratio: variant / baseline of the cost of an output token; None where it is not known.
    floor: the noise floor; None: not measured.
    reason_has_floor: the reason mentions the noise floor already.
    compared_outputs: number of pairs whose outputs were compared; 0 if outputs were sampled.
    likeness: how often the variant's outputs, and the control's, equal the baseline's.
    speedups: ratio of the means, by metric; above 1 if the variant is better than the baseline.
    ttft_ratio, ttft_p95_ratio: variant / baseline of the typical TTFT and of the 95th percentile,
        with 93% intervals.
    baseline_usd, variant_usd: cost of a million output tokens; None without a price.
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
        return clears(self.judgement, self.cost_ratio, self.floor)

    @property
    def name(self) -> str:
        """The variant's name, and what it is compared with if that is not the run's baseline."""
        against = f" against {AS_SHIPPED}" if self.baseline == AS_SHIPPED else ""
        return f"{self.variant}{against}"

    @property
    def prompts(self) -> int:
        return self.cost_ratio.prompts if self.cost_ratio else 0

    @property
    def itl_speedup(self) -> Estimate | None:
        return self.speedups[INTER_TOKEN_LATENCY]

    @property
    def ttft_unchanged(self) -> bool | None:
        return within(self.ttft_ratio, factor=1 + TTFT_MARGIN)

    @property
    def ttft_p95_unchanged(self) -> bool | None:
        return within(self.ttft_p95_ratio, factor=1 + TTFT_MARGIN)

    @property
    def identical_share(self) -> float | None:
        """Pairs with identical outputs / pairs with compared outputs; None if there are none."""
        return self.identical_outputs / self.compared_outputs if self.compared_outputs else None


def judge(cost_ratio: Estimate | None, check: LimitCheck) -> tuple[Judgement, str]:
    """Return the verdict of the first rule that applies, and its reason in one sentence."""
    if check.kept is False:
        return "outside the limits", check.reason
    if cost_ratio is None:
        return "inconclusive", "no prompt of each class has its tokens counted on both sides"
    ends = cost_ratio.interval
    if ends is None:
        one = cost_ratio.samples == 1
        given = "one pair gives" if one else f"{cost_ratio.samples} pairs give"
        return "inconclusive", (
            f"{given} no interval: it takes {MIN_PROMPTS} prompts and two "
            "rounds, and more where they differ much"
        )
    (low, high), where = ends, spoken_of(cost_ratio)
    if low > 1 + INDIFFERENCE:
        return "more expensive", f"a token costs at least {low - 1:.0%} more{where}"
    if check.kept is None:
        return "inconclusive", check.reason
    if high < 1 / (1 + INDIFFERENCE):
        return "cheaper per token", f"a token costs at least {1 - high:.0%} less{where}"
    if low >= 1 / (1 + INDIFFERENCE) and high <= 1 + INDIFFERENCE:
        return "no difference", f"a token costs the same to {INDIFFERENCE:.0%} either way{where}"
    return "inconclusive", f"{low - 1:+.0%} to {high - 1:+.0%}{where} does not decide it"


def spoken_of(ratio: Estimate) -> str:
    """Say for which repetitions an interval holds; empty if it holds for any similar repetition."""
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
    """Judge one variant in a traffic.

    sampled: the temperature was above 0. control: all blocks of the control's rounds.
    answers: checks of whether outputs are the target model's.
    """
    pairs = counting(paired(blocks, traffic, variant=variant, baseline=baseline))
    ratio = cost_ratio(blocks, traffic, variant=variant, baseline=baseline, price=price)
    floor, _ = noise_floor(control, traffic, baseline=baseline, limits=limits)
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
        ttft_ratio=ratios.ratio_of_typical(pairs, TTFT.field, confidence=TTFT_CONFIDENCE),
        ttft_p95_ratio=ratios.ratio_of_quantiles(
            plain, drafted, TTFT_TAIL, confidence=TTFT_CONFIDENCE
        ),
        baseline_usd=weighted(blocks, traffic, baseline, COST, price=price),
        variant_usd=weighted(blocks, traffic, variant, COST, price=price),
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
    """Return variant / baseline of the cost of an output token, with its interval."""
    pairs = paired(blocks, traffic, variant=variant, baseline=baseline)
    known = ratios.log_cost_ratio(pairs, traffic)
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
    if traffic.load.has_cost_per_token:
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
    found = ratios.log_ratio_of_sums(pairs, traffic.weights, ratios.mean_of(metric.field))
    if found is None:
        return None
    ratio = found.estimate()
    return ratio if metric.better == "higher" else ratio.inverse


def _share_ratio(price: Price | None, variant: str, baseline: str) -> float:
    """Return the variant's share of a node / the baseline's; 1 if the shares are not known."""
    shares = price.node_shares if price else {}
    own, others = shares.get(variant), shares.get(baseline)
    return own / others if own and others else 1.0
