"""What a run does when, how long its accelerator nodes are billed, and what that costs.

The phases of a run, their lengths from the experiment and from stated assumptions: an estimate,
best to worst case, that a reader can check by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds, exactly
from draftworth.planning.loading_time import load_minutes, transfer_minutes
from draftworth.planning.measuring_phases import measuring_phases
from draftworth.planning.phases import Limit, Phase, Timeline
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron

DEPLOY = "deploy"
STAGE = "stage checkpoints"
SCALE_UP = "scale up"
NODE_START = "node start"
IMAGE_PULL = "image pull"
TEARDOWN = "nodes to zero"
DEADLINE = "aws.deadline_minutes"
BUDGET = "aws.budget_usd"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A run's time line: `limited` ends at the deadline or the budget, `unlimited` does not."""

    experiment: ResolvedNeuron
    assumed: Assumptions
    limited: Timeline
    unlimited: Timeline

    @property
    def billed_minutes(self) -> Bounds:
        """Minutes that each node is billed.

        The least and the most of both cases: where a limit ends both, the best one launches sooner
        and is billed longer.
        """
        billed = self.limited.bounds(lambda run: run.billed_minutes)
        return Bounds(min(billed.best, billed.worst), max(billed.best, billed.worst))

    @property
    def needed_minutes(self) -> Bounds:
        """Minutes that each node would be billed without deadline and budget."""
        return self.unlimited.bounds(lambda run: run.billed_minutes)

    def usd(self, minutes: Bounds) -> Bounds:
        """What all nodes cost for so many minutes each; raises UserInputError without a price."""
        nodes, price = self.experiment.placement.nodes, self.experiment.node_price
        rate = exactly(price.usd_per_hour, f"{price.usd_per_hour:.2f}")
        return minutes.called("minutes") / 60 * nodes * rate


def forecast(
    experiment: ResolvedNeuron,
    assumed: Assumptions,
    *,
    compiled: Collection[str] = (),
    second: bool = False,
) -> Forecast:
    """The time line of one run.

    compiled: variants whose graph is in the bucket. second: a run after another one, which finds
    the cluster, every checkpoint and every compiled graph.
    """
    phases = tuple(_phases(experiment, assumed, compiled=compiled, second=second))
    return Forecast(
        experiment=experiment,
        assumed=assumed,
        limited=Timeline.of(phases, _limits(experiment, assumed)),
        unlimited=Timeline.of(phases),
    )


def _phases(
    experiment: ResolvedNeuron, assumed: Assumptions, *, compiled: Collection[str], second: bool
) -> Iterator[Phase]:
    """The phases: nothing that a CPU node can do happens on an accelerator node."""
    minutes = assumed.bounds
    deploy = minutes("redeploy_minutes" if second else "deploy_minutes")
    stage = exactly(0, "in the bucket already")
    if not second:  # all models at once, over the one link of a CPU node
        transfer = transfer_minutes(experiment.spec.models, assumed, "hub_gbit_per_s")
        stage = transfer + minutes("stager_start_minutes")
    yield Phase(name=DEPLOY, minutes=deploy, billed=False)
    yield Phase(name=STAGE, minutes=stage, after=(DEPLOY,), billed=False)
    yield Phase(name=SCALE_UP, minutes=minutes("scale_up_minutes"), after=(STAGE,), billed=False)
    yield Phase(name=NODE_START, minutes=minutes("node_start_minutes"), after=(SCALE_UP,))
    yield Phase(name=IMAGE_PULL, minutes=minutes("image_pull_minutes"), after=(NODE_START,))
    compiled = {v.name for v in experiment.variants if second or v.name in compiled}
    starting = [variant for variant in experiment.variants if experiment.starts_up(variant)]
    for variant in starting:
        yield from _serving_phases(variant, assumed, is_compiled=variant.name in compiled)
    loaded = tuple(f"load {variant.name}" for variant in starting)
    measuring = tuple(measuring_phases(experiment, assumed, compiled=compiled, after=loaded))
    yield from measuring
    last = (measuring[-1].name,)
    yield Phase(name=TEARDOWN, minutes=minutes("teardown_minutes"), after=last)


def _serving_phases(
    variant: NeuronVariant, assumed: Assumptions, *, is_compiled: bool
) -> Iterator[Phase]:
    """A compile where no graph is there, then a load; each variant on its own slot, all at once."""
    last = IMAGE_PULL
    if not is_compiled:
        minutes = assumed.bounds("compile_minutes")
        yield Phase(name=f"compile {variant.name}", minutes=minutes, after=(last,))
        last = f"compile {variant.name}"
    loading = load_minutes(variant, assumed)
    yield Phase(name=f"load {variant.name}", minutes=loading, after=(last,))


def _limits(experiment: ResolvedNeuron, assumed: Assumptions) -> tuple[Limit, ...]:
    """As the capacity controller has them: the deadline counts from the end of the deploy, the
    spend from the launch. Without a price nobody knows how long the budget lasts."""
    aws = experiment.spec.aws
    deadline = Limit(name=DEADLINE, after=DEPLOY, minutes=exactly(aws.deadline_minutes))
    if aws.price is None:
        return (deadline,)
    paid = exactly(aws.budget_usd / experiment.usd_per_hour * 60)
    minutes = paid + assumed.bounds("budget_delay_minutes")
    return (deadline, Limit(name=BUDGET, after=SCALE_UP, minutes=minutes))
