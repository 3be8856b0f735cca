"""The checks of price, budget and mails, of left-over example values, and of pinned revisions."""

from draftworth.account.checks.check import CheckResult, Situation, failed, passed, skipped, warned
from draftworth.account.market.offers import spot_prices
from draftworth.errors import counted
from draftworth.planning.prices import PRICE_RENEWAL, price_doubt
from draftworth.planning.timeline import BUDGET, forecast

# The check passes if the experiment's and the zone's Spot price differ by at most this share.
SPOT_PRICE_TOLERANCE = 0.2
# The check fails if the experiment's price is older than this many days and the current price is
# more than this many times as high. The spending, which counts against the budget, is computed with
# the experiment's price, so the nodes would be ended far too late.
OLD_PRICE_DAYS = 30
MUCH_HIGHER = 1.25


def price_date(situation: Situation) -> CheckResult:
    """Check that the price of a node is known and recent enough."""
    aws = situation.experiment.spec.aws
    if aws.price is None:
        return warned(
            "aws.price is left out and none has been looked up",
            f"draftworth price {situation.experiment.path} asks AWS; `make deploy` does "
            "so itself, `cdk deploy` cannot",
        )
    today = situation.now.date()
    price_words = (
        f"{aws.price.usd_per_hour:.2f} USD per node and hour of {aws.price.as_of.isoformat()}"
    )
    if doubt := price_doubt(situation.experiment, today):
        return warned(f"{price_words}, which is {doubt}", PRICE_RENEWAL)
    return passed(f"{price_words}, {(today - aws.price.as_of).days} days old")


def example_values_replaced(situation: Situation) -> CheckResult:
    """Check that the user has replaced all placeholder values of a shipped example."""
    if left := list(situation.experiment.spec.aws.example_values()):
        return failed(
            f"still the values of an example: {', '.join(left)}", "replace them with your own"
        )
    return passed("the experiment has no value of an example")


def spot_price(situation: Situation) -> CheckResult:
    """Check that the experiment's Spot price is near the zone's current one."""
    aws, kind = situation.experiment.spec.aws, situation.experiment.spec.instance_type
    if aws.capacity.kind != "spot":
        return skipped(f"aws.capacity is {aws.capacity.kind}")
    prices = spot_prices(situation.here, kind, situation.now, AvailabilityZone=situation.zone)
    if situation.zone not in prices:
        return warned(
            f"EC2 has no Spot price of {kind} in {situation.zone}: there may be none",
            f"`draftworth preflight {situation.experiment.path} --find` looks for other "
            "zones and other capacity",
        )
    new = prices[situation.zone]
    price_words = f"{new.usd_per_hour:.2f} USD in {situation.zone} on {new.as_of.isoformat()}"
    if aws.price is None:
        return passed(price_words)
    price_words += f", aws.price {aws.price.usd_per_hour:.2f} of {aws.price.as_of.isoformat()}"
    times = new.usd_per_hour / aws.price.usd_per_hour
    if abs(times - 1) <= SPOT_PRICE_TOLERANCE:
        return passed(price_words)
    paste = {"price": new.model_dump()}
    next_step = f"set aws.price to {new.usd_per_hour:.2f} of {new.as_of.isoformat()}"
    if times <= MUCH_HIGHER or (new.as_of - aws.price.as_of).days <= OLD_PRICE_DAYS:
        return warned(price_words, next_step, paste=paste)
    return failed(
        f"{price_words}: with it {BUDGET} {aws.accelerator_budget_usd:.2f} ends the nodes after "
        f"{aws.accelerator_budget_usd * times:.2f} USD",
        f"{next_step}, and {BUDGET} to what you want to spend",
        paste=paste,
    )


def budget(situation: Situation) -> CheckResult:
    """Check that the budget pays for the time that the run is estimated to need."""
    experiment = situation.experiment
    budget_usd = experiment.spec.aws.accelerator_budget_usd
    if experiment.spec.aws.price is None:
        return skipped("no price is known yet")
    need = forecast(experiment).needed_minutes
    nodes = counted(experiment.placement.nodes, "node")
    paid = 60 * budget_usd / experiment.usd_per_hour
    budget_words = (
        f"{budget_usd:.2f} USD pay for {paid:.0f} minutes of {nodes}; a first run is estimated to "
        f"need {need:.0f}"
    )
    if paid < need.best:
        return failed(
            budget_words, f"raise {BUDGET}, or measure less: `draftworth plan` has the sum"
        )
    if paid < need.worst:
        return warned(budget_words, f"raise {BUDGET}, or accept that it may end the run")
    return passed(budget_words)


def mails(situation: Situation) -> CheckResult:
    """Check that somebody gets the mails: nothing else tells of a capacity controller that fails.

    Whether the address was confirmed is known only after the deploy, which creates the topic.
    """
    address = situation.experiment.spec.aws.notify_email
    if address is None:
        return warned(
            "nobody gets the mails, the only alarm of a capacity controller that fails and of "
            "nodes that stay",
            "set aws.notify_email, and confirm the address by the link that AWS mails to it",
        )
    return passed(f"{address} gets them, once it is confirmed by the link that AWS mails to it")


def revisions(situation: Situation) -> CheckResult:
    """Check that every model is pinned to a commit."""
    moving = situation.experiment.spec.unpinned_models
    if moving:
        return warned(
            f"not pinned to a commit: {', '.join(moving)}",
            "set each `revision` to a commit of 40 hex digits, or later runs may measure others",
        )
    return passed("every model is pinned to a commit")
