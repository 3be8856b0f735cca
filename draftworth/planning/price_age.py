"""Whether a node's price is recent enough to calculate with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from draftworth.experiment.aws import Price
from draftworth.planning.resolved import ResolvedNeuron

# Days after which a price is asked for again. Spot prices move by the day, list prices rarely; a
# Capacity Block's is what was paid for it, and gets no older.
_MAX_AGE_DAYS: Mapping[str, int] = {"spot": 14, "on_demand": 90}


def price_doubt(experiment: ResolvedNeuron, today: date) -> str:
    """Why the price should be looked up again, after "which is"; empty: it is recent, or none."""
    aws = experiment.spec.aws
    if aws.price is None:
        return ""
    # Today is that of UTC; where the reader is, tomorrow may have begun.
    if aws.price.as_of > today + timedelta(days=1):
        return "in the future"
    most = _MAX_AGE_DAYS.get(aws.capacity.kind)
    if most is not None and today - aws.price.as_of > timedelta(days=most):
        return f"more than {most} days ago"
    return ""


def price_renewal(price: Price) -> str:
    """How an old price is replaced."""
    return (
        f"look it up again ({price.source}) and set aws.price, or, where the experiment leaves it "
        "out, `python -m draftworth price EXPERIMENT --again`"
    )
