"""Says at which shares of the traffic, and up to which price, a variant costs less per token."""

import math
from collections.abc import Iterator

from draftworth.analysis.sensitivity import CostByPrice, CostByShare
from draftworth.decision.run_decision import Decision
from draftworth.report.drawing import short


def break_even_sentences(decision: Decision) -> Iterator[str]:
    """Yield at which shares of a class, and up to which price, the variant costs less per token.

    There are none if the verdict is not about the cost of a token.
    """
    for curve in decision.pays_while:
        yield f"{share_words(curve)}."
    if decision.pays_up_to_price:
        yield price_sentence(decision.pays_up_to_price)


def share_words(curve: CostByShare) -> str:
    """Say how large a class's share of the traffic must be for the variant to cost less per token.

    The break-even share is given with its interval.
    """
    who, name = f"{short(curve.variant)} at {curve.traffic.load.words}", short(curve.prompt_class)
    if curve.equal is None:
        less = "less" if curve.starts_cheaper else "more"
        unproven = "" if curve.is_shown_at_every_share else " (not shown for each)"
        return f"{who} costs {less} per token whatever the share of {name}{unproven}"
    least = "least" if curve.falls else "most"
    share = share_percent(curve.equal.value, curve.equal.low, curve.equal.high)
    return f"{who} costs less per token while at {least} {share} of tokens are {name}"


def share_percent(share: float, low: float | None, high: float | None) -> str:
    """Return a share (0 to 1) with its interval, rounded outwards, as `41% (36 to 47)`."""
    if low is None or high is None:
        return f"{share:.0%} (no interval)"
    return f"{share:.0%} ({math.floor(100 * low)} to {math.ceil(100 * high)})"


def price_sentence(cost: CostByPrice) -> str:
    """Say up to which price of the variant's server a token costs less, with the interval.

    The price is given in prices of the baseline's server. The interval is rounded outwards.
    """
    equal, ends = cost.equal, "no interval"
    if equal.low is not None and equal.high is not None:
        low, high = math.floor(100 * equal.low) / 100, math.ceil(100 * equal.high) / 100
        ends = f"{low:.2f} to {high:.2f}"
    where = f"{short(cost.variant)} in {short(cost.traffic.name)} at {cost.traffic.load.words}"
    return (
        f"{where} costs less per token up to "
        f"{equal.value:.2f} times the price of the baseline's server ({ends})."
    )
