"""Sentences of `draftworth estimate`: what to measure next, its cost, and what a draft can save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.cli.price_words import billed_words, block_words, dated_source, unknown_price
from draftworth.estimate.forecast import Conclusion, DraftEstimate, windows_text
from draftworth.estimate.step_cost_sources import checked_serving
from draftworth.experiment import catalog
from draftworth.metrics.definitions import SECONDS_PER_HOUR
from draftworth.planning import specify_run, timeline
from draftworth.planning.capacity_block import PaidBlock
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.records import results
from draftworth.records.step_costs import StepCostCard


@dataclass(frozen=True, kw_only=True)
class TokenPrice:
    """The price of decoding a token without a draft; the prefill is not included.

    usd_per_node_hour: the price of one node.
    node_share: the share of a node's devices that the baseline's server takes, 0 to 1.
    step_s: how many seconds a decoding step takes with `requests` in flight.
    """

    usd_per_node_hour: float
    node_share: float
    step_s: float
    requests: int

    @property
    def usd_per_million(self) -> float:
        usd_per_second = self.usd_per_node_hour * self.node_share / SECONDS_PER_HOUR
        return usd_per_second * self.step_s / self.requests * 1e6

    @property
    def words(self) -> str:
        """Words that state the price of a million tokens, and how it is computed."""
        return (
            f"{self.usd_per_million:.4g} USD per million ({self.usd_per_node_hour:.2f} USD per "
            f"node hour x {self.node_share:g} of a node / 3600 x {self.step_s:.4g} s per step / "
            f"{self.requests} at once x 1,000,000)"
        )


def token_prices(experiment: ResolvedExperiment, card: StepCostCard) -> dict[str, TokenPrice]:
    """Return what a token costs without a draft, by the load's label.

    The mapping is empty if a node's price is unknown, or if the servers that were measured for
    `card` differ from the experiment's.

    card: the seconds per step that a run measured, of which the baseline's are used.
    UserInputError: the card does not name its servers' model, image and devices, or a step cost in
    it is invalid.
    """
    serving, price = checked_serving(card), experiment.price
    ours = specify_run.serving_facts(experiment)
    # The card (`--card`: step costs of an earlier run) is used only if its servers had the image,
    # models and devices of this experiment's. `decoding` (drafting method and window by variant)
    # may differ, because only the baseline's step latency is used.
    if price is None or replace(serving, decoding=ours.decoding) != ours:
        return {}
    plain = {
        name
        for name, decoding in serving.decoding.items()
        if decoding.method == catalog.NO_SPECULATION and name != results.AS_SHIPPED
    }
    share = price.node_shares[next(v.name for v in experiment.variants if v.is_baseline)]
    return {
        cost.load.label: TokenPrice(
            usd_per_node_hour=price.usd_per_node_hour,
            node_share=share,
            step_s=cost.step_latency_s,
            requests=min(in_flight, serving.max_num_seqs),
        )
        for cost in card.costs
        # In a Poisson load it is not known how many requests share a step.
        if (in_flight := cost.load.in_flight) is not None
        and cost.variant in plain
        and cost.step_latency_s
    }


def with_next_steps(
    experiment: ResolvedExperiment,
    estimate: DraftEstimate,
    prices: Mapping[str, TokenPrice],
    tokens_per_day: int | None,
) -> DraftEstimate:
    """Return the estimate with sentences on what to measure next.

    N-gram drafting gets no sentences if `tokens_per_day` is None, or if the experiment's release of
    the serving image does not support it.

    prices: what a token costs without a draft, by the load's label. tokens_per_day: output tokens
    of the user's service; None: not given.
    """
    is_served = estimate.method in experiment.spec.release_facts.methods
    if estimate.method == catalog.NGRAM and (tokens_per_day is None or not is_served):
        return estimate
    price = prices.get(estimate.step_costs.load or "")
    lines = settling(experiment, estimate.conclusion, price=price, tokens_per_day=tokens_per_day)
    return replace(estimate, settling=(*estimate.settling, *lines))


def settling(
    experiment: ResolvedExperiment,
    conclusion: Conclusion,
    *,
    price: TokenPrice | None,
    tokens_per_day: int | None,
) -> Sequence[str]:
    """Return sentences on what to measure next, what that costs, and what the draft can save.

    conclusion: whether any window of the draft pays, and which ones must be measured to be sure.
    price: what a token costs without a draft; None: unknown, so savings are in percent only.
    tokens_per_day: output tokens of the user's service; None: not given.
    """
    if conclusion.outcome != "cannot pay":
        saving = _saving(experiment, conclusion, price=price, tokens_per_day=tokens_per_day)
    elif tokens_per_day:
        saving = "What it can save: nothing, however many tokens per day, because no window pays."
    else:
        saving = ""
    return [*filter(None, (_what_would_settle_it(experiment, conclusion), saving))]


def _what_would_settle_it(experiment: ResolvedExperiment, conclusion: Conclusion) -> str:
    if not conclusion.to_measure:
        return ""
    windows = conclusion.to_measure
    served = {variant.spec.window for variant in experiment.variants}
    missing = [window for window in windows if window not in served]
    add = ""
    if missing:
        add = (
            f" (no variant has {windows_text(missing)}: add one for each, or a `search` with them)"
        )
    # If the step cost of a window to measure is already measured, its interval was too wide, and a
    # longer run is advised.
    is_repeated = conclusion.about.is_measured and conclusion.about.window in windows
    again = " again, for longer" if is_repeated else ""
    what = f"measures {windows_text(windows)}{add}{again}."
    if not isinstance(experiment, ResolvedNeuron):
        return f"What would settle it: a run of the experiment that {what}"
    return f"What would settle it: a run that {what} {_run_cost(experiment)}"


def _run_cost(experiment: ResolvedNeuron) -> str:
    if block := PaidBlock.of(experiment):
        return f"It costs {block_words(block, experiment)}."
    price, run = experiment.spec.aws.price, timeline.forecast(experiment)
    if price is None:
        cost = f"; the cost is {unknown_price(experiment)}"
    else:
        cost = f" ({price.usd_per_hour:.2f} USD per hour; {dated_source(price)})"
    return (
        "A first run, as the experiment file has it, by the assumptions of `plan`: "
        f"{billed_words(run)}{cost}."
    )


def _saving(
    experiment: ResolvedExperiment,
    conclusion: Conclusion,
    *,
    price: TokenPrice | None,
    tokens_per_day: int | None,
) -> str:
    ratio = conclusion.about.cost_ratio
    # A saving is never below 0, because a draft that proves more expensive is not deployed.
    low, high = (max(0.0, 1 - end) for end in (ratio.high, ratio.low))
    share = f"{low:.1%} to {high:.1%}"
    of_decoding = (
        f"What it can save with window {conclusion.about.window}: {share} of what decoding costs "
        "now"
    )
    if tokens_per_day is None:
        return f"{of_decoding}."
    if price is None:
        return f"{of_decoding}; in USD it is not known, because {_why_no_price(experiment)}."
    usd_per_day = tokens_per_day / 1e6 * price.usd_per_million
    return (
        f"{of_decoding}: {tokens_per_day:,} tokens per day x {price.words} = {usd_per_day:,.2f} "
        f"USD per day, of which {share} are {low * usd_per_day:,.2f} to "
        f"{high * usd_per_day:,.2f} USD per day."
    )


def _why_no_price(experiment: ResolvedExperiment) -> str:
    if isinstance(experiment, ResolvedNeuron):
        return (
            "that takes a price of the experiment's nodes and a baseline that was measured on such "
            "servers at so many requests at once (--card)"
        )
    return "a local experiment has no node with a price"
