"""What a run does when, how long its accelerator nodes are billed, and what that costs.

The phases of a run, their lengths from the experiment and from stated assumptions: an estimate,
best to worst case, that a reader can check by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds, exactly
from draftworth.planning.loading_time import starting_phases, transfer_minutes
from draftworth.planning.measuring_phases import measuring_phases
from draftworth.planning.phases import Limit, Phase, Schedule, Timeline
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.search_time import OTHERS, SearchTime

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
    """A run's time line: `limited` ends at the deadline or the budget, `unlimited` does not.

    Of a search, both are of the certain candidates in the best case, and in the worst of all that
    `search.stop` lets begin.
    """

    experiment: ResolvedNeuron
    assumed: Assumptions
    limited: Timeline
    unlimited: Timeline
    search: SearchTime | None = None

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

    @property
    def searched_minutes(self) -> Bounds:
        """Of a search, until its certain candidates are measured; it begins with the first node
        that is up, as the load generator does."""
        return self.unlimited.bounds(_searched_minutes)

    def minutes_of(self, candidates: float) -> Bounds:
        """Of a search, minutes that each node would be billed for so many candidates, without
        deadline, budget and `search.stop`; all `needed_minutes` without a search."""
        if self.search is None:
            return self.needed_minutes
        billed, others = self.needed_minutes, self.others_minutes
        certain = Bounds(billed.best - others.best, billed.worst - others.worst)
        return certain.called("certain candidates") + self.search.others_minutes(candidates)

    @property
    def others_minutes(self) -> Bounds:
        """Of a search, for candidates that are not certain; 0 where there are none."""
        return self.unlimited.bounds(
            lambda run: run.spans[OTHERS].minutes if OTHERS in run.spans else 0.0
        )

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
    the cluster, every checkpoint and every graph that the first one certainly compiled.
    """
    extent = experiment.extent
    if second:
        others = {c.variant for c in extent.others} if extent else ()
        compiled = {*compiled, *(v.name for v in experiment.variants if v.name not in others)}
    search = None
    if extent:
        search = SearchTime(
            experiment=experiment, extent=extent, assumed=assumed, compiled=compiled
        )
    phases = [*_phases(experiment, assumed, compiled=compiled, second=second)]
    if search:
        phases += search.certain_phases(after=phases[-1].name)
        begun = Timeline.of(phases).bounds(_searched_minutes)
        phases += search.others_phases(begun, after=phases[-1].name)
    teardown = assumed.bounds("teardown_minutes")
    phases.append(Phase(name=TEARDOWN, minutes=teardown, after=(phases[-1].name,)))
    return Forecast(
        experiment=experiment,
        assumed=assumed,
        limited=Timeline.of(phases, _limits(experiment, assumed)),
        unlimited=Timeline.of(phases),
        search=search,
    )


def _searched_minutes(schedule: Schedule) -> float:
    """From the start of the load generator until the last candidate that is certain is measured."""
    measured = [phase.name for phase in schedule.phases if phase.measured]
    return schedule.spans[measured[-1]].end - schedule.spans[NODE_START].end


def _phases(
    experiment: ResolvedNeuron, assumed: Assumptions, *, compiled: Collection[str], second: bool
) -> Iterator[Phase]:
    """Until all is measured that is up at once: nothing that a CPU node can do happens on an
    accelerator node."""
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
    starting = [variant for variant in experiment.variants if experiment.starts_up(variant)]
    for variant in starting:  # each on its own slot, all at once
        is_compiled = variant.name in compiled
        yield from starting_phases(variant, assumed, is_compiled=is_compiled, after=IMAGE_PULL)
    loaded = tuple(f"load {variant.name}" for variant in starting)
    yield from measuring_phases(experiment, assumed, after=loaded)


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
