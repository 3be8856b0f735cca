"""The time line of a run: its phases, the limits that end it, billed time and cost of its nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from draftworth.planning.assumptions import CASES, Assumptions, Bounds, assumption_data
from draftworth.planning.durations import Durations, SearchTime, round_counts
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron

DEADLINE = "aws.deadline_minutes"
BUDGET = "aws.accelerator_budget_usd"
DEPLOY = "deploy"
STAGE = "stage checkpoints"
SCALE_UP = "scale up"
NODE_START = "node start"
IMAGE_PULL = "image pull"
# The phase in which a search measures candidates that it does not measure in every run.
FURTHER_CANDIDATES = "other candidates"
TEARDOWN = "nodes to zero"


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a phase of a run begins and ends, in minutes from the start of the deploy.

    billed: whether accelerator nodes exist in this phase.
    measured: whether requests are measured in it.
    cut: whether the deadline or the budget ended it early.
    """

    start: float
    end: float
    billed: bool = True
    measured: bool = False
    cut: bool = False

    @property
    def minutes(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The course of a run in the best or in the worst case.

    spans: when each phase begins and ends, by its name.
    ended_by: the limit that ended the run, `DEADLINE` or `BUDGET`; None: no limit did.
    """

    spans: Mapping[str, Span]
    ended_by: str | None = None

    @property
    def billed_minutes(self) -> float:
        billed = [span for span in self.spans.values() if span.billed]
        return billed[-1].end - billed[0].start if billed else 0.0

    @property
    def measured_minutes(self) -> float:
        return sum(span.minutes for span in self.spans.values() if span.measured)

    @property
    def end(self) -> float:
        return max(span.end for span in self.spans.values())

    @property
    def certain_search_minutes(self) -> float:
        """Minutes from a search's start until the candidates of `Extent.certain` are measured.

        These are the candidates that are measured in any case. The search starts when the nodes
        have started.
        """
        measured = [span for span in self.spans.values() if span.measured]
        return measured[-1].end - self.spans[NODE_START].end

    def minutes_of(self, name: str) -> float:
        return self.spans[name].minutes if name in self.spans else 0.0

    def until(self, limits: Iterable[tuple[float, str]]) -> Schedule:
        """Return this schedule, cut at the earliest of `limits`.

        limits: pairs of a minute, counted from the start of the deploy, and the limit's name.
        Phases that have begun by this minute end there, and nodes that exist are released.
        """
        cut, limit_name = min(limits)
        release = self.spans[TEARDOWN]
        if cut >= release.start:
            return self
        kept = {
            name: replace(span, end=min(span.end, cut), cut=span.end > cut)
            for name, span in self.spans.items()
            if name != TEARDOWN and span.start < cut
        }
        if any(span.billed for span in kept.values()):
            kept[TEARDOWN] = replace(release, start=cut, end=cut + release.minutes)
        return Schedule(spans=kept, ended_by=limit_name)


@dataclass(frozen=True, kw_only=True)
class Schedules:
    """The schedules of a run in the best and in the worst case."""

    best: Schedule
    worst: Schedule

    def bounds(self, quantity: Callable[[Schedule], float]) -> Bounds:
        return Bounds(quantity(self.best), quantity(self.worst))


@dataclass(frozen=True, kw_only=True)
class RunForecast:
    """A run's time line, twice: `limited` is cut at the deadline or the budget, `unlimited` is not.

    nat_gib: the GiB that pass the NAT gateway: the serving images of all nodes, and in a run that
        stages them the checkpoints. Not counted are nodes that are lost, whose successors pull the
        image again.

    In a search, the best case has only the candidates that are always measured (`Extent.certain`);
    the worst case has all candidates that begin before a limit in `search.stop` forbids it.
    """

    experiment: ResolvedNeuron
    assumed: Assumptions
    limited: Schedules
    unlimited: Schedules
    nat_gib: Bounds
    search: SearchTime | None = None

    @property
    def billed_minutes(self) -> Bounds:
        """Billed minutes of each node in both cases, the smaller number first.

        If the deadline ends both cases, the best case is billed for longer: its nodes start sooner.
        """
        billed = self.limited.bounds(lambda run: run.billed_minutes)
        return Bounds(min(billed.best, billed.worst), max(billed.best, billed.worst))

    @property
    def needed_minutes(self) -> Bounds:
        return self.unlimited.bounds(lambda run: run.billed_minutes)

    @property
    def released_minutes(self) -> Bounds:
        """Minutes from the deploy's end until node release begins, if no limit ends the run."""
        return self.unlimited.bounds(
            lambda run: math.ceil(run.spans[TEARDOWN].start - run.spans[DEPLOY].end)
        )

    @property
    def all_measured_minutes(self) -> Bounds:
        """Minutes from the start of the deploy until all is measured, if no limit ends the run."""
        return self.unlimited.bounds(lambda run: run.spans[TEARDOWN].start)

    @property
    def measured_minutes(self) -> Bounds:
        return self.unlimited.bounds(lambda run: run.measured_minutes)

    @property
    def searched_minutes(self) -> Bounds:
        """Minutes from a search's start until all candidates of `Extent.certain` are measured.

        These are the candidates that are measured in any case.
        """
        return self.unlimited.bounds(lambda run: run.certain_search_minutes)

    @property
    def further_minutes(self) -> Bounds:
        return self.unlimited.bounds(lambda run: run.minutes_of(FURTHER_CANDIDATES))

    def minutes_of(self, candidates: float) -> Bounds:
        """Return the billed minutes of a run whose search measures this number of candidates.

        The number may be a mean, so it need not be whole.
        """
        needed, assumed = self.needed_minutes, self.further_minutes
        further = self.search.further_minutes(candidates) if self.search else assumed
        return Bounds(
            needed.best - assumed.best + further.best, needed.worst - assumed.worst + further.worst
        )

    @property
    def nat_usd(self) -> Bounds:
        return self.nat_gib.times(assumption_data().nat_gateway_traffic.usd_per_gib)

    def usd(self, minutes: Bounds) -> Bounds:
        return minutes.times(self.experiment.usd_per_hour / 60)


def forecast(
    experiment: ResolvedNeuron,
    assumed: Assumptions | None = None,
    *,
    compiled: Collection[str] = (),
    second: bool = False,
) -> RunForecast:
    """Compute the time line of one run of an experiment.

    If the experiment is on hold, the run is that of the next deploy without `aws.hold`: it finds
    the cluster and all checkpoints of the deploy on hold.

    assumed: durations and speeds; by default the shipped assumptions for the experiment's target.
    compiled: names of variants whose compiled graph is already in the artifacts bucket.
    second: whether the run follows a first run, so that the cluster and all checkpoints exist, and
        the compiled graphs of all variants that every run measures.
    """
    assumed = assumed or assumption_data().for_target(experiment.spec.target.model)
    extent = experiment.extent
    if second:
        further = {c.variant for c in extent.possible} if extent else ()
        compiled = {*compiled, *(v.name for v in experiment.variants if v.name not in further)}
    is_deployed = second or experiment.spec.aws.hold
    best, worst = (Durations(experiment=experiment, assumed=assumed, case=case) for case in CASES)
    search = None
    if extent:
        search = SearchTime(
            experiment=experiment, extent=extent, best=best, worst=worst, compiled=compiled
        )
    plans = [_Plan(durations=durations, compiled=compiled) for durations in (best, worst)]
    for plan in plans:
        plan.measure_what_is_certain(search, is_deployed=is_deployed)
    if search and search.extent.possible:
        begun = Bounds(*(plan.schedule.certain_search_minutes for plan in plans))
        plans[0].add(FURTHER_CANDIDATES, 0.0)  # at best no other candidate is measured
        plans[1].add(FURTHER_CANDIDATES, search.most_further_minutes(begun))
    for plan in plans:
        plan.add(TEARDOWN, plan.durations.assumption("teardown_minutes"))
    unlimited = Schedules(best=plans[0].schedule, worst=plans[1].schedule)
    limited = Schedules(best=plans[0].limited, worst=plans[1].limited)
    return RunForecast(
        experiment=experiment,
        assumed=assumed,
        limited=limited,
        unlimited=unlimited,
        nat_gib=Bounds(*(_nat_gib(each, is_deployed=is_deployed) for each in (best, worst))),
        search=search,
    )


def _nat_gib(durations: Durations, *, is_deployed: bool) -> float:
    return durations.pulled_gib() + (0.0 if is_deployed else durations.staged_gib())


@dataclass(kw_only=True)
class _Plan:
    """Collects the phases of a run in one case (best or worst), in the order of their start.

    durations: estimates how long each phase lasts in this case.
    compiled: names of variants whose compiled graph exists already.
    spans: when each phase begins and ends, by its name.
    """

    durations: Durations
    compiled: Collection[str]
    spans: dict[str, Span] = field(default_factory=dict)

    def measure_what_is_certain(self, search: SearchTime | None, *, is_deployed: bool) -> None:
        # Everything that a CPU node can do is finished before accelerator nodes start.
        experiment, assumption = self.durations.experiment, self.durations.assumption
        deploying = assumption("redeploy_minutes" if is_deployed else "deploy_minutes")
        self.add(DEPLOY, deploying, billed=False)
        self.add(STAGE, 0.0 if is_deployed else self.durations.stage_minutes(), billed=False)
        self.add(SCALE_UP, assumption("scale_up_minutes"), billed=False)
        self.add(NODE_START, assumption("node_start_minutes"))
        self.add(IMAGE_PULL, assumption("image_pull_minutes"))
        self.start(*filter(experiment.starts_up, experiment.variants))
        for repetition in range(1, experiment.spec.repetitions + 1):
            self.measure(repetition)
        for variant in search.certain[1:] if search else ():
            self.start(variant)
            minutes = self.durations.candidate_rounds_minutes()
            self.add(f"measure {variant.name}", minutes, measured=True)

    def start(self, *variants: NeuronVariant) -> None:
        """Add the phases in which the variants' servers, all at once, compile and load models.

        A server compiles only if its variant's graph does not exist yet.
        """
        now = self.end
        for variant in variants:
            ready = now
            if variant.name not in self.compiled:
                minutes = self.durations.assumption("compile_minutes")
                ready = self.add(f"compile {variant.name}", minutes, start=now)
            self.add(f"load {variant.name}", self.durations.load_minutes(variant), start=ready)

    def measure(self, repetition: int) -> None:
        durations, experiment = self.durations, self.durations.experiment
        place = f", repetition {repetition}" if experiment.spec.repetitions > 1 else ""
        if repetition > 1:
            loading = max(durations.load_minutes(v) for v in experiment.variants)
            self.add(f"load again{place}", loading)
        for load in experiment.loads:
            self.add(f"measure {load.label}{place}", durations.least_minutes(load), measured=True)
        if round_counts(experiment).further(repetition):
            minutes = durations.further_minutes(repetition)
            self.add(f"measure further{place}", minutes, measured=True)
        if experiment.spec.control:
            self.add(f"load control{place}", durations.load_minutes(experiment.baseline))
            self.add(f"measure control{place}", durations.control_minutes(), measured=True)

    def add(
        self,
        name: str,
        minutes: float,
        *,
        start: float | None = None,
        billed: bool = True,
        measured: bool = False,
    ) -> float:
        """Add a phase that begins at `start`, by default after all other phases; return its end.

        Times are in minutes from the start of the deploy. minutes: how long the phase lasts.
        billed: whether accelerator nodes exist in it. measured: whether requests are measured.
        """
        start = self.end if start is None else start
        end = start + minutes
        self.spans[name] = Span(start=start, end=end, billed=billed, measured=measured)
        return end

    @property
    def end(self) -> float:
        return max((span.end for span in self.spans.values()), default=0.0)

    @property
    def schedule(self) -> Schedule:
        return Schedule(spans=dict(self.spans))

    @property
    def limited(self) -> Schedule:
        """The schedule, cut at the limits that the capacity controller enforces.

        The deadline counts from the end of the deploy, the budget from the end of the scale-up.
        Without a price of a node, the budget limits nothing.
        """
        experiment, aws = self.durations.experiment, self.durations.experiment.spec.aws
        limits = [(self.spans[DEPLOY].end + aws.deadline_minutes, DEADLINE)]
        if aws.price is not None:
            paid = aws.accelerator_budget_usd / experiment.usd_per_hour * 60
            late = self.durations.assumption("budget_delay_minutes")
            limits.append((self.spans[SCALE_UP].end + paid + late, BUDGET))
        return self.schedule.until(limits)
