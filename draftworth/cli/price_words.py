"""The words in which `plan` and `estimate` say what the nodes of a run cost."""

from draftworth.errors import counted
from draftworth.experiment.aws import Price
from draftworth.planning.capacity_block import PaidBlock
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import RunForecast


def billed_words(run: RunForecast) -> str:
    """Return a run's billed time in words, with its cost in USD if a node's price is known."""
    nodes = counted(run.experiment.placement.nodes, "node")
    time = f"{run.billed_minutes:.1f} billed minutes x {nodes}"
    if run.experiment.spec.aws.price is None:
        return time
    return f"{run.usd(run.billed_minutes):.2f} USD for {time}"


def dated_source(price: Price) -> str:
    """Return where and when a price was looked up, in one line."""
    return f"{' '.join(price.source.split())}, {price.as_of.isoformat()}"


def block_words(block: PaidBlock, experiment: ResolvedNeuron) -> str:
    """Return in words what an experiment's Capacity Block costs, and how this is computed."""
    price, hours = experiment.node_price, experiment.spec.aws.capacity.hours
    default = "" if hours else "; aws.capacity.hours is not given: one day, the shortest"
    return (
        f"{block.usd:.2f} USD for the Capacity Block, whole and in advance: {block.hours:g} hours "
        f"x {block.instances} x {price.usd_per_hour:.2f} ({dated_source(price)}){default}"
    )


def unknown_price(experiment: ResolvedNeuron) -> str:
    """Return the words for an unknown price of a node, with the command that looks it up."""
    return (
        "unknown: aws.price is left out and none has been looked up; "
        f"`draftworth price {experiment.path}` asks AWS"
    )
