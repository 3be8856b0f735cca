"""Writes for `draftworth estimate` what to measure next, its cost, and what a draft can save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.cli.templates import paragraphs
from draftworth.estimate.forecast import Conclusion, DraftEstimate, windows_text
from draftworth.estimate.step_costs import checked_serving
from draftworth.experiment import catalog
from draftworth.metrics.definitions import SECONDS_PER_HOUR
from draftworth.planning import run_specification, timeline
from draftworth.planning.capacity_block import PaidBlock
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.records import results
from draftworth.records.findings import StepCostCard


@dataclass(frozen=True, kw_only=True)
class TokenPrice:
    """The price of decoding a token without a draft; the prefill is not included.

    node_share: the part of a node that the baseline's slot takes, 0 to 1.
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


def token_prices(experiment: ResolvedExperiment, card: StepCostCard) -> dict[str, TokenPrice]:
    """Return a token's price by the load's label; raises UserInputError for invalid step costs.

    Empty if a node's price is unknown, or if the card's servers differ from the experiment's.
    """
    serving, price = checked_serving(card), experiment.price
    ours = run_specification.serving_facts(experiment)
    # `decoding` is not compared, because other variants do not change the baseline's step latency.
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


def settled(
    experiment: ResolvedExperiment,
    found: DraftEstimate,
    prices: Mapping[str, TokenPrice],
    tokens_per_day: int | None,
) -> DraftEstimate:
    """Return the estimate with sentences on what to measure next; n-gram drafting gets none if
    `tokens_per_day` is None or the release does not serve it."""
    is_served = found.method in experiment.spec.release_facts.methods
    if found.method == catalog.NGRAM and (tokens_per_day is None or not is_served):
        return found
    price = prices.get(found.step_costs.load or "")
    lines = settling(experiment, found.conclusion, price=price, tokens_per_day=tokens_per_day)
    return replace(found, settling=(*found.settling, *lines))


def settling(
    experiment: ResolvedExperiment,
    found: Conclusion,
    *,
    price: TokenPrice | None,
    tokens_per_day: int | None,
) -> Sequence[str]:
    """Return sentences on what to measure next, what that costs, and what the draft can save."""
    there = {variant.spec.window for variant in experiment.variants}
    neuron = experiment if isinstance(experiment, ResolvedNeuron) else None
    ratio = found.about.cost_ratio
    # There is no loss, because a draft that proves more expensive is not deployed.
    low, high = (max(0.0, 1 - end) for end in (ratio.high, ratio.low))
    values = {
        "experiment": experiment,
        "found": found,
        "run": timeline.forecast(neuron) if neuron else None,
        "block": PaidBlock.of(neuron) if neuron else None,
        "missing": [window for window in found.to_measure if window not in there],
        # The step of this window was measured already, but its interval is too wide.
        "again": found.about.is_measured and found.about.window in found.to_measure,
        "price": price,
        "tokens_per_day": tokens_per_day,
        "low": low,
        "high": high,
        "windows_text": windows_text,
    }
    return paragraphs("settling.txt.jinja", values)
