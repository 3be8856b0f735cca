"""What a run does when, how long its accelerator nodes are billed, and what that costs.

The phases of a deployment as events (`phases`), their lengths from the experiment and from stated
assumptions (`assumptions`): an estimate, low to high, that a reader can check by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.planning.assumptions import Assumptions, Bound, Bounds
from draftworth.planning.pace import round_counts, round_minutes
from draftworth.planning.phases import Course, Limit, Phase, Simulation, simulate
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.planning.steps import (
    IMAGE_PULL,
    NODE_START,
    Transfer,
    assumed_phase,
    compile_name,
    load_name,
    load_phase,
    node_phases,
    transfer_phase,
)
from draftworth.records.load import Load

DEPLOY = "deploy"
STAGE = "stage checkpoints"
SCALE_UP = "scale up"
TEARDOWN = "nodes to zero"
MEASURE_PREFIX = "measure"
DEADLINE = "aws.deadline_minutes"
BUDGET = "aws.budget_usd"


@dataclass(frozen=True, kw_only=True)
class InPlace:
    """What is there before a run.

    staged: storage prefixes of checkpoints that are READY. artifact_keys: compiled graphs.
    """

    cluster: bool = False
    staged: frozenset[str] = frozenset()
    artifact_keys: frozenset[str] = frozenset()


def in_place_after_a_run(experiment: ResolvedNeuron) -> InPlace:
    """What a second run finds: the cluster, every checkpoint, every compiled graph."""
    return InPlace(
        cluster=True,
        staged=frozenset(model.storage_prefix for model in experiment.spec.models),
        artifact_keys=frozenset(v.artifact_key for v in experiment.variants),
    )


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A run's time line in the low and in the high estimate.

    `low` and `high` end at the deadline or the budget; `unlimited_...` is what the run would need.
    """

    low: Simulation
    high: Simulation
    unlimited_low: Simulation
    unlimited_high: Simulation
    nodes: int
    usd_per_node_hour: float

    @property
    def billed_minutes(self) -> Bounds:
        """Minutes that each node is billed.

        Where a limit ends both estimates, the one that launches sooner is billed longer: the bounds
        are the least and the most of the two.
        """
        billed = (self.low.billed_minutes, self.high.billed_minutes)
        return Bounds(low=min(billed), high=max(billed))

    @property
    def needed_minutes(self) -> Bounds:
        """Minutes that each node would be billed without deadline and budget."""
        return Bounds(
            low=self.unlimited_low.billed_minutes, high=self.unlimited_high.billed_minutes
        )

    def usd(self, minutes: Bounds) -> Bounds:
        """What all nodes cost for so many minutes each."""
        usd_per_minute = self.nodes * self.usd_per_node_hour / 60
        return Bounds.of(lambda bound: minutes.at(bound) * usd_per_minute)


def forecast(experiment: ResolvedNeuron, *, assumed: Assumptions, in_place: InPlace) -> Forecast:
    """The time line of one run."""
    course = course_of(experiment, assumed=assumed, in_place=in_place)
    return Forecast(
        low=simulate(course, "low"),
        high=simulate(course, "high"),
        unlimited_low=simulate(course, "low", limited=False),
        unlimited_high=simulate(course, "high", limited=False),
        nodes=experiment.placement.nodes,
        usd_per_node_hour=experiment.spec.aws.price.usd_per_hour,
    )


def course_of(experiment: ResolvedNeuron, *, assumed: Assumptions, in_place: InPlace) -> Course:
    """This design's phases: nothing that a CPU node can do happens on an accelerator node."""
    serving = [
        phase
        for variant in experiment.variants
        for phase in _serving_phases(variant, assumed, in_place)
    ]
    ready = tuple(load_name(variant) for variant in experiment.variants)
    measuring = _measuring_phases(experiment, assumed, after=ready)
    last = (measuring[-1].name,)
    return Course(
        phases=(
            assumed_phase(
                DEPLOY, assumed, "redeploy_minutes" if in_place.cluster else "deploy_minutes"
            ),
            _staging_phase(experiment, assumed, in_place),
            assumed_phase(SCALE_UP, assumed, "scale_up_minutes", after=(STAGE,)),
            *node_phases(assumed, after=(SCALE_UP,)),
            *serving,
            *measuring,
            assumed_phase(TEARDOWN, assumed, "teardown_minutes", after=last),
        ),
        launch=NODE_START,
        measure=measuring[0].name,
        release=TEARDOWN,
        limits=_limits(experiment, assumed),
    )


def measure_name(load: Load) -> str:
    """The name of the measuring phase of one load."""
    return f"{MEASURE_PREFIX} {load.label}"


def _staging_phase(experiment: ResolvedNeuron, assumed: Assumptions, in_place: InPlace) -> Phase:
    missing = tuple(m for m in experiment.spec.models if m.storage_prefix not in in_place.staged)
    if not missing:
        nothing = Bounds(low=0, high=0)
        return Phase(name=STAGE, minutes=nothing, how="in the bucket already", after=(DEPLOY,))
    # All models at once, over the one link of a CPU node.
    transfer = Transfer(models=missing, assumed=assumed, speed="hub_gbit_per_s")
    return transfer_phase(STAGE, transfer, plus="stager_start_minutes", after=(DEPLOY,))


def _serving_phases(
    variant: NeuronVariant, assumed: Assumptions, in_place: InPlace
) -> tuple[Phase, ...]:
    """A compile where no graph is there, then a load; each variant on its own slot, all at once."""
    if variant.artifact_key in in_place.artifact_keys:
        return (load_phase(variant, assumed, after=(IMAGE_PULL,)),)
    name = compile_name(variant)
    return (
        assumed_phase(name, assumed, "compile_minutes", after=(IMAGE_PULL,)),
        load_phase(variant, assumed, after=(name,)),
    )


def _measuring_phases(
    experiment: ResolvedNeuron, assumed: Assumptions, *, after: tuple[str, ...]
) -> tuple[Phase, ...]:
    """One phase a load, one after the other."""
    phases: list[Phase] = []
    for load in experiment.loads:
        phases.append(_measuring_phase(experiment, assumed, load, after=after))
        after = (phases[-1].name,)
    return tuple(phases)


def _measuring_phase(
    experiment: ResolvedNeuron,
    assumed: Assumptions,
    load: Load,
    *,
    after: tuple[str, ...],
) -> Phase:
    counts = round_counts(experiment.spec.workload)

    def one_round(bound: Bound) -> float:
        return round_minutes(experiment, assumed, load, bound=bound)

    return Phase(
        name=measure_name(load),
        minutes=Bounds.of(lambda bound: counts.at(bound) * one_round(bound)),
        how=f"{counts.text()} rounds x {Bounds.of(one_round).text(digits=1)} (below)",
        after=after,
    )


def _limits(experiment: ResolvedNeuron, assumed: Assumptions) -> tuple[Limit, ...]:
    """As the capacity controller has them: the deadline counts from the end of the deploy, the
    spend from the launch."""
    aws = experiment.spec.aws
    paid_minutes = aws.budget_usd / experiment.usd_per_hour * 60
    deadline = float(aws.deadline_minutes)
    return (
        Limit(name=DEADLINE, after=DEPLOY, minutes=Bounds(low=deadline, high=deadline)),
        Limit(
            name=BUDGET,
            after=SCALE_UP,
            minutes=Bounds.of(lambda bound: paid_minutes + assumed.guard_minutes.at(bound)),
        ),
    )
