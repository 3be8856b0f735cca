"""Whether price, budget and plan fit, and whether the run can be compared with a later one."""

from __future__ import annotations

from account.checks.check import Outcome, Situation, failed, passed, skipped, warned
from account.market.prices import spot_prices
from draftworth.experiment.aws import Spot
from draftworth.planning.assumptions import assumption_data
from draftworth.planning.timeline import forecast

# Days after which a price is asked for again. Spot prices move by the day, list prices rarely.
MAX_PRICE_AGE_DAYS = 90
MAX_SPOT_PRICE_AGE_DAYS = 14
# How far the experiment's Spot price may be off the zone's before a warning.
SPOT_PRICE_TOLERANCE = 0.2


def price_date(situation: Situation) -> Outcome:
    """There is a price, recent enough to calculate with."""
    aws = situation.experiment.spec.aws
    if aws.price is None:
        return warned(
            "aws.price is left out and none has been looked up",
            f"nothing: `make deploy` asks AWS; python -m draftworth price "
            f"{situation.experiment.path} does it now",
        )
    spot = isinstance(aws.capacity, Spot)
    most = MAX_SPOT_PRICE_AGE_DAYS if spot else MAX_PRICE_AGE_DAYS
    days = (situation.now.date() - aws.price.as_of).days
    found = f"{aws.price.usd_per_hour:.2f} USD a node and hour of {aws.price.as_of.isoformat()}"
    renew = (
        f"look it up again ({aws.price.source}) and set aws.price, or, where the experiment leaves "
        "it out, `draftworth price --again`"
    )
    if days < 0:
        return warned(f"{found}, which is in the future", renew)
    if days > most:
        return warned(f"{found}, {days} days old; more than {most} is too old", renew)
    return passed(f"{found}, {days} days old")


def spot_price(situation: Situation) -> Outcome:
    """The experiment's Spot price is near the zone's."""
    aws, kind = situation.experiment.spec.aws, situation.experiment.spec.instance_type
    if not isinstance(aws.capacity, Spot):
        return skipped(f"aws.capacity is {aws.capacity.kind}")
    prices = spot_prices(situation.here, kind, situation.now, AvailabilityZone=situation.zone)
    if situation.zone not in prices:
        return warned(
            f"EC2 has no Spot price of {kind} in {situation.zone}: there may be none",
            f"`draftworth preflight {situation.experiment.path} --find` looks for other zones and "
            "other capacity",
        )
    price = prices[situation.zone]
    found = f"{price.now:.2f} USD in {situation.zone} now"
    if aws.price is None:
        return passed(found)
    found += f", aws.price {aws.price.usd_per_hour:.2f}"
    if abs(price.now / aws.price.usd_per_hour - 1) <= SPOT_PRICE_TOLERANCE:
        return passed(found)
    today = situation.now.date()
    new = {"usd_per_hour": price.now, "as_of": today, "source": price.source}
    next_step = f"set aws.price to {price.now:.2f} of {today.isoformat()}"
    return warned(found, next_step, paste={"price": new})


def budget(situation: Situation) -> Outcome:
    """The budget leaves the run the time that it is estimated to need."""
    experiment, budget_usd = situation.experiment, situation.experiment.spec.aws.budget_usd
    if experiment.spec.aws.price is None:
        return skipped("no price is known yet")
    assumed = assumption_data().for_target(experiment.spec.target.model)
    need = forecast(experiment, assumed).needed_minutes
    nodes, paid = experiment.placement.nodes, 60 * budget_usd / experiment.usd_per_hour
    found = (
        f"{budget_usd:.2f} USD pay for {paid:.0f} minutes of {nodes} node"
        f"{'s' if nodes > 1 else ''}; a first run is estimated to need {need.text(digits=0)}"
    )
    if paid < need.best:
        return failed(found, "raise aws.budget_usd, or measure less: `draftworth plan` has the sum")
    if paid < need.worst:
        return warned(found, "raise aws.budget_usd, or accept that it may end the run")
    return passed(found)


def revisions(situation: Situation) -> Outcome:
    """Every model is pinned to a commit."""
    moving = situation.experiment.spec.unpinned_models
    if moving:
        return warned(
            f"not pinned to a commit: {', '.join(moving)}",
            "set each `revision` to a commit of 40 hex digits, or later runs may measure others",
        )
    return passed("every model is pinned to a commit")
