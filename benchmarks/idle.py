"""How long accelerator nodes are billed: this design against the published sequence, simulated.

    python -m benchmarks.idle [--experiment FILE] [--phases] [--assume NAME=VALUE ...]

Both are event simulations (`draftworth.planning.phases`) of the same experiment, made of the same
steps (`draftworth.planning.steps`) with the same assumptions (docs/timeline.md): nothing here was
measured on AWS.

The published sequence is that of the AWS sample (aws-neuron-eks-samples cecff9e, 2026-02-26,
speculative_decoding_trn2_vllm): a pod on the accelerator node downloads and compiles one variant
with the whole node's CPUs, then another pod the other; two deployments load, one after the other; a
pod installs llmperf and loads both variants at once, case by case, until a person stops it. It gets
the benefit of every doubt: its manifests that are missing are there, compiling onto the S3 mount
works, serving downloads nothing again, and one node is enough.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from draftworth.errors import DraftworthError, UserInputError
from draftworth.planning.assumptions import (
    OPTION,
    Assumptions,
    Bound,
    Bounds,
    PublishedAssumptions,
    assumption_data,
)
from draftworth.planning.pace import pace_of, round_counts
from draftworth.planning.phases import Course, Phase, Simulation, simulate
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron, load
from draftworth.planning.steps import (
    IMAGE_PULL,
    Transfer,
    assumed_phase,
    compile_name,
    load_phase,
    node_phases,
    transfer_phase,
)
from draftworth.planning.timeline import MEASURE_PREFIX, InPlace, course_of, in_place_after_a_run
from draftworth.records.load import Load

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENT = ROOT / "experiments" / "qwen3-32b.yaml"

# As the sample's llmperf pod has it: requests of one case and variant in one pass.
PASS_REQUESTS = 8
INSTALL = "install llmperf"
MEASURE = f"{MEASURE_PREFIX} in a loop"
UNATTENDED = "until a person stops it"
CONSOLIDATE = "empty node noticed"
TEARDOWN = "node to zero"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What both sequences have in common."""

    experiment: ResolvedNeuron
    assumed: Assumptions
    published: PublishedAssumptions


def published_course(scene: Scene, *, compiled: bool) -> Course:
    """The sample's steps; `compiled`: a second run, with every graph in its bucket."""
    experiment, published = scene.experiment, scene.published
    phases = list(node_phases(scene.assumed, after=()))
    last = IMAGE_PULL
    if not compiled:
        for variant in experiment.variants:
            phases += _compiling(scene, variant, after=last)
            last = phases[-1].name
    for variant in experiment.variants:
        phases.append(load_phase(variant, scene.assumed, after=(last,)))
        last = phases[-1].name
    phases += [
        _published(INSTALL, published, "llmperf_install_minutes", after=last),
        _load_loop(scene),
        _published(UNATTENDED, published, "unattended_minutes", after=MEASURE),
        _published(CONSOLIDATE, published, "consolidate_minutes", after=UNATTENDED),
        assumed_phase(TEARDOWN, scene.assumed, "teardown_minutes", after=(CONSOLIDATE,)),
    ]
    return Course(phases=tuple(phases), launch=phases[0].name, measure=MEASURE, release=TEARDOWN)


def _compiling(scene: Scene, variant: NeuronVariant, *, after: str) -> Iterator[Phase]:
    """Download, compile, hand over to the next manifest: all while the node is up."""
    download, compiling = f"download for {variant.name}", compile_name(variant)
    transfer = Transfer(
        models=tuple(variant.checkpoints.values()),
        assumed=scene.assumed,
        speed="hub_gbit_per_s",
    )
    yield transfer_phase(download, transfer, after=(after,))
    ratio, minutes = scene.published.whole_node_compile_ratio, scene.assumed.compile_minutes
    yield Phase(
        name=compiling,
        minutes=Bounds.of(lambda bound: ratio.at(bound) * minutes.at(bound)),
        how=f"whole_node_compile_ratio {ratio.bounds.text()} x compile_minutes "
        f"{minutes.bounds.text()}",
        after=(download,),
    )
    name = f"hand over after {variant.name}"
    yield _published(name, scene.published, "hand_over_minutes", after=compiling)


def _published(name: str, published: PublishedAssumptions, assumption: str, *, after: str) -> Phase:
    bounds: Bounds = getattr(published, assumption).bounds
    return Phase(name=name, minutes=bounds, how=assumption, after=(after,))


def _load_loop(scene: Scene) -> Phase:
    """As many passes as give this design's number of measured requests, both variants at once."""
    work = scene.experiment.spec.workload
    counts = round_counts(work)

    def passes(bound: Bound) -> float:
        return counts.at(bound) * work.requests_per_round / PASS_REQUESTS

    def one_pass(bound: Bound) -> float:
        return len(scene.experiment.cases) * _case_seconds(scene, bound) / 60

    return Phase(
        name=MEASURE,
        minutes=Bounds.of(lambda bound: passes(bound) * one_pass(bound)),
        how=f"{Bounds.of(passes).text()} passes x {Bounds.of(one_pass).text(digits=1)}",
        after=(INSTALL,),
    )


def _case_seconds(scene: Scene, bound: Bound) -> float:
    """One case of one pass at every load: the slower variant, and llmperf's start."""
    experiment = scene.experiment
    start = scene.published.llmperf_start_seconds.at(bound)
    return sum(
        start + max(_sending(scene, variant, load, bound) for variant in experiment.variants)
        for load in experiment.loads
    )


def _sending(scene: Scene, variant: NeuronVariant, load: Load, bound: Bound) -> float:
    pace = pace_of(scene.experiment, variant, scene.assumed)
    seats = scene.experiment.spec.serving.max_num_seqs
    return load.sending_seconds(
        PASS_REQUESTS, request_seconds=pace.request_seconds(bound), seats=seats
    )


def our_course(scene: Scene, *, compiled: bool) -> Course:
    """This design's steps; `compiled`: a second run."""
    in_place = in_place_after_a_run(scene.experiment) if compiled else InPlace()
    return course_of(scene.experiment, assumed=scene.assumed, in_place=in_place)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A course simulated in both estimates, without deadline and budget."""

    low: Simulation
    high: Simulation

    @classmethod
    def of(cls, course: Course) -> Runs:
        """Simulate a course twice."""
        return cls(
            low=simulate(course, "low", limited=False),
            high=simulate(course, "high", limited=False),
        )

    @property
    def billed_before_first_token(self) -> Bounds:
        """Minutes a node is billed before anything is measured."""
        return Bounds(low=_before_first_token(self.low), high=_before_first_token(self.high))

    @property
    def billed(self) -> Bounds:
        """Minutes a node is billed in all."""
        return Bounds(low=self.low.billed_minutes, high=self.high.billed_minutes)

    @property
    def idle(self) -> Bounds:
        """Minutes a node is billed while nothing is measured."""
        return Bounds(
            low=self.low.billed_minutes - _measuring_minutes(self.low),
            high=self.high.billed_minutes - _measuring_minutes(self.high),
        )


def _before_first_token(run: Simulation) -> float:
    minutes = run.billed_minutes_before_first_token
    if minutes is None:
        raise DraftworthError("the simulated run measured nothing")
    return minutes


def _measuring_minutes(run: Simulation) -> float:
    return sum(span.minutes for name, span in run.spans.items() if name.startswith(MEASURE_PREFIX))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Billed minutes of a node in both sequences."""

    label: str
    ours: Bounds
    published: Bounds

    @property
    def ratio(self) -> Bounds:
        """Published over ours, estimate by estimate."""
        return Bounds.of(lambda bound: self.published.at(bound) / self.ours.at(bound))


def comparisons(scene: Scene) -> Iterator[Comparison]:
    """First and second run: until the first measured token, all but measuring, and in total."""
    for run, compiled in (("first", False), ("second", True)):
        ours = Runs.of(our_course(scene, compiled=compiled))
        published = Runs.of(published_course(scene, compiled=compiled))
        yield Comparison(
            label=f"{run} run, before the first measured token",
            ours=ours.billed_before_first_token,
            published=published.billed_before_first_token,
        )
        yield Comparison(
            label=f"{run} run, all that is not measuring",
            ours=ours.idle,
            published=published.idle,
        )
        yield Comparison(label=f"{run} run, in total", ours=ours.billed, published=published.billed)


LABEL_WIDTH = 44
NUMBER_WIDTH = 8


def table_lines(scene: Scene) -> Iterator[str]:
    """The comparison as text."""
    experiment = scene.experiment
    yield f"minutes that an accelerator node is billed, {experiment.name}, best and worst case"
    yield _row("", ["ours", "", "published", "", "ratio", ""])
    yield _row("", ["best", "worst"] * 3)
    for row in comparisons(scene):
        minutes = [f"{m:.1f}" for b in (row.ours, row.published) for m in (b.low, b.high)]
        yield _row(row.label, [*minutes, f"{row.ratio.low:.2f}", f"{row.ratio.high:.2f}"])


def _row(label: str, cells: list[str]) -> str:
    return (f"{label:<{LABEL_WIDTH}}" + "".join(f"{c:>{NUMBER_WIDTH}}" for c in cells)).rstrip()


def phase_lines(title: str, course: Course) -> Iterator[str]:
    """Every phase of a course: when it starts, how long it takes, how that was computed."""
    runs = Runs.of(course)
    yield ""
    yield f"{title}: starts at and takes minutes, best and worst case"
    for phase in course.phases:
        low, high = runs.low.spans[phase.name], runs.high.spans[phase.name]
        numbers = (low.start, high.start, low.minutes, high.minutes)
        yield f"{_row(phase.name, [f'{n:.1f}' for n in numbers])}   {phase.how}"


def scene_of(path: Path, assume: list[str]) -> Scene:
    """An experiment file as both sequences see it; refuses one of this machine."""
    experiment = load(path)
    if not isinstance(experiment, ResolvedNeuron):
        raise UserInputError(f"--experiment: {path} rents no accelerator; give a Neuron experiment")
    data = assumption_data()
    return Scene(
        experiment=experiment,
        assumed=data.for_target(experiment.spec.target.model).replaced(assume),
        published=data.published_sequence,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiment", type=Path, default=EXPERIMENT)
    parser.add_argument("--phases", action="store_true", help="every phase of both first runs")
    parser.add_argument(OPTION, action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    try:
        scene = scene_of(arguments.experiment, arguments.assume)
    except DraftworthError as error:
        print(f"idle: {error}", file=sys.stderr)
        return error.exit_code
    for line in table_lines(scene):
        print(line)
    if arguments.phases:
        for title, course in (
            ("ours, first run", our_course(scene, compiled=False)),
            ("published, first run", published_course(scene, compiled=False)),
        ):
            for line in phase_lines(title, course):
                print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
