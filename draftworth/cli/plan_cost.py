"""`draftworth plan`: the cost of a run, at best and at worst."""

from collections.abc import Iterator

from draftworth.experiment.aws import CapacityBlock
from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning.assumptions import HOURS_A_MONTH, assumption_data
from draftworth.planning.capacity_block import PaidBlock, free_slots
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.schedule import NODE_START, TEARDOWN
from draftworth.planning.timeline import BUDGET, RunForecast
from draftworth.records.deployment import BLOCK_MARGIN_SECONDS


def cost_lines(first: RunForecast, second: RunForecast) -> Iterator[str]:
    """Yield the cost of a first run, of a second one, and of everything beside the nodes."""
    aws = first.experiment.spec.aws
    yield ""
    if aws.price is None:
        yield f"cost        {no_price_text(first.experiment)}"
        yield f"  first run   {billed_text(first)}"
        yield f"  second run  {billed_text(second)}"
    elif isinstance(aws.capacity, CapacityBlock):
        yield from _block_lines(first, second, aws.capacity)
    else:
        yield from _hourly_lines(first, second)
    yield _standing_line()
    yield _metrics_line(first.experiment)


def no_price_text(experiment: ResolvedNeuron) -> str:
    """Explain why the cost is not known, and how to get a price."""
    return (
        "unknown: aws.price is left out and none has been looked up; "
        f"`python -m draftworth price {experiment.path}` asks AWS"
    )


def billed_text(run: RunForecast) -> str:
    """Return the billed minutes of a run, and their cost if a price is known."""
    minutes = f"{run.billed_minutes:.1f} billed minutes x {_nodes(run.experiment)}"
    if run.experiment.spec.aws.price is None:
        return minutes
    return f"{run.usd(run.billed_minutes):.2f} USD for {minutes}"


def block_text(experiment: ResolvedNeuron, capacity: CapacityBlock) -> str:
    """Return the cost of a Capacity Block with its factors."""
    price, block = experiment.node_price, PaidBlock.of(experiment, capacity)
    assumed = "" if capacity.hours else "; aws.capacity.hours is not given: one day, the shortest"
    return (
        f"{block.usd:.2f} USD for the Capacity Block, whole and in advance: "
        f"{block.hours:g} hours x {block.instances} x {price.usd_per_hour:.2f} ({price.source}, "
        f"{price.as_of.isoformat()}){assumed}"
    )


def _nodes(experiment: ResolvedNeuron) -> str:
    nodes = experiment.placement.nodes
    return f"{nodes} node{'s' if nodes > 1 else ''}"


def _hourly_lines(first: RunForecast, second: RunForecast) -> Iterator[str]:
    """The cost of nodes that are paid for while they exist."""
    experiment, price = first.experiment, first.experiment.node_price
    yield (
        f"cost        {experiment.usd_per_hour:.2f} USD an hour while the accelerator nodes are up "
        f"({experiment.placement.nodes} x {price.usd_per_hour:.2f}; {price.source}, "
        f"{price.as_of.isoformat()}), from `{NODE_START}` to the end of `{TEARDOWN}`"
    )
    yield f"  first run   {billed_text(first)}; {BUDGET} {experiment.spec.aws.budget_usd:.2f}"
    graphs = "the certain candidates' graphs" if second.search else "compiled graphs"
    yield f"  second run  {billed_text(second)}: the cluster, checkpoints and {graphs} are there"


def _block_lines(first: RunForecast, second: RunForecast, capacity: CapacityBlock) -> Iterator[str]:
    """The cost of nodes that are paid for in advance."""
    block = PaidBlock.of(first.experiment, capacity)
    yield f"cost        {block_text(first.experiment, capacity)}"
    for name, run in (("first run ", first), ("second run", second)):
        idle = block.idle_share(run.billed_minutes).times(100)
        yield (
            f"  {name}  {run.billed_minutes:.0f} minutes of {_nodes(run.experiment)}: "
            f"{idle:.0f}% of the block stays idle"
        )
    more, room = block.further_runs(first, second), free_slots(first.experiment, block.instances)
    yield (
        f"  would fit   {more:g} more runs on compiled graphs, one after the other (raise `rerun`, "
        f"or change the workload), and {room} more variants at the same time; the nodes go "
        f"{BLOCK_MARGIN_SECONDS // 60} minutes before the block ends"
    )


def _standing_line() -> str:
    """The cost from deploy to destroy, whatever runs."""
    items = assumption_data().standing
    total_usd = sum(item.count * item.usd_per_hour for item in items)
    parts = " + ".join(f"{item.count} x {item.what} {item.usd_per_hour:g}" for item in items)
    dates = sorted(item.as_of for item in items)
    return (
        f"  beside it   about {total_usd:.2f} USD an hour from deploy to destroy ({parts}; "
        f"{dates[0].isoformat()} to {dates[-1].isoformat()}); storage, logs and traffic on top"
    )


def _metrics_line(experiment: ResolvedNeuron) -> str:
    """CloudWatch's charge for the metrics of a run."""
    price, count = assumption_data().custom_metric, _metric_count(experiment)
    usd_per_month = count * price.usd_per_month
    return (
        f"  metrics     {count} in CloudWatch: at most {usd_per_month / HOURS_A_MONTH:.3f} USD an "
        f"hour while results come in, {usd_per_month:.2f} USD in a month that measures all the "
        f"time ({price.usd_per_month:.2f} each a month, {price.as_of.isoformat()})"
    )


def _metric_count(experiment: ResolvedNeuron) -> int:
    """Count the metrics; each combination of dimensions is one."""
    classes, loads = len(experiment.spec.workload.classes), len(experiment.loads)
    of_variants = sum(len(charged(speculates=v.speculates)) for v in experiment.variants)
    of_verdict = len(FINDING_METRICS) * (len(experiment.variants) - 1)
    traffics = classes + 1 if classes > 1 else classes  # each class, and the mix of several
    return (of_variants * classes + of_verdict * traffics) * loads
