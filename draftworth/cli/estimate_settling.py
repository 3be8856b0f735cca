"""`draftworth estimate`: what to measure next, what that costs, and what a draft can save."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftworth.cli.plan_figures import billed_text, block_text, no_price_text
from draftworth.estimate.forecast import Conclusion, windows_text
from draftworth.estimate.step_costs import checked_serving
from draftworth.experiment import aws, catalog
from draftworth.metrics.definitions import SECONDS_PER_HOUR
from draftworth.planning import run_specification, timeline
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

    @property
    def how(self) -> str:
        return (
            f"{self.usd_per_node_hour:.2f} USD a node hour x {self.node_share:g} of a node / 3600 "
            f"x {self.step_s:.4g} s a step / {self.requests} at once x 1,000,000"
        )


def token_prices(experiment: ResolvedExperiment, card: StepCostCard) -> dict[str, TokenPrice]:
    """Return a token's price by the load's label; raises UserInputError for invalid step costs.

    The result is empty if a node's price is unknown or other servers' step costs are in `card`.
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


def settling(
    experiment: ResolvedExperiment,
    found: Conclusion,
    *,
    price: TokenPrice | None,
    tokens_per_day: int | None,
) -> Iterator[str]:
    """Yield what to measure, its cost, and what can be saved."""
    if found.to_measure:
        yield _to_measure(experiment, found)
    if found.outcome != "cannot pay":
        yield _saving(experiment, found, price, tokens_per_day)
    elif tokens_per_day is not None:
        yield "What it can save: nothing, however many tokens a day, because no window pays."


def _to_measure(experiment: ResolvedExperiment, found: Conclusion) -> str:
    there = {variant.spec.window for variant in experiment.variants}
    windows = windows_text(found.to_measure)
    if missing := [window for window in found.to_measure if window not in there]:
        windows += (
            f" (no variant has {windows_text(missing)}: add one for each, or a `search` with them)"
        )
    if found.about.is_measured and found.about.window in found.to_measure:
        # The step of this window was measured already, but its interval is too wide.
        windows += " again, for longer"
    if not isinstance(experiment, ResolvedNeuron):
        return f"What would settle it: a run of the experiment that measures {windows}."
    return f"What would settle it: a run that measures {windows}. {_run_cost(experiment)}"


def _run_cost(experiment: ResolvedNeuron) -> str:
    run = timeline.forecast(experiment)
    capacity, price = experiment.spec.aws.capacity, experiment.spec.aws.price
    by = "as the experiment file has it, by the assumptions of `plan`"
    if price is None:
        return f"A first run, {by}: {billed_text(run)}; the cost is {no_price_text(experiment)}."
    if isinstance(capacity, aws.CapacityBlock):
        return f"It costs {block_text(experiment, capacity)}."
    at = f"{price.usd_per_hour:.2f} USD an hour; {price.source}, {price.as_of.isoformat()}"
    return f"A first run, {by}: {billed_text(run)} ({at})."


def _saving(
    experiment: ResolvedExperiment,
    found: Conclusion,
    price: TokenPrice | None,
    tokens_per_day: int | None,
) -> str:
    ratio = found.about.cost_ratio
    # There is no loss, because a draft that proves more expensive is not deployed.
    low, high = (max(0.0, 1 - end) for end in (ratio.high, ratio.low))
    share = f"{low:.1%} to {high:.1%}"
    what = f"What it can save with window {found.about.window}: {share} of what decoding costs now"
    if tokens_per_day is None:
        return f"{what}."
    if price is None:
        takes = (
            "that takes a price of the experiment's nodes and a baseline that was measured on such "
            "servers at so many requests at once (--card)"
            if isinstance(experiment, ResolvedNeuron)
            else "a local experiment has no node with a price"
        )
        return f"{what}; in USD it is not known, because {takes}."
    usd_per_day = tokens_per_day / 1e6 * price.usd_per_million
    return (
        f"{what}: {tokens_per_day:,} tokens a day x {price.usd_per_million:.4g} USD a million "
        f"({price.how}) = {usd_per_day:,.2f} USD a day, of which {share} are "
        f"{low * usd_per_day:,.2f} to {high * usd_per_day:,.2f} USD a day."
    )
