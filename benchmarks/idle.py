"""How long accelerator nodes are billed: this design against the published sequence, estimated.

    python -m benchmarks.idle [--experiment FILE] [--phases] [--assume NAME=VALUE ...]

Both take the same assumptions by the same arithmetic; docs/timeline.md has the table and what the
published sequence is (aws-neuron-eks-samples cecff9e, 2026-02-26, speculative_decoding_trn2_vllm).
Nothing was measured on AWS. `draftworth plan` shows the phases of this design, `--phases` those of
the published sequence.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.planning.assumptions import (
    OPTION,
    Assumptions,
    PublishedAssumptions,
    assumption_data,
)
from draftworth.planning.bounds import CASES, Bounds, exactly, longest, total
from draftworth.planning.loading_time import load_minutes, transfer_minutes
from draftworth.planning.measuring_time import RoundCounts, request_seconds, slowest_load
from draftworth.planning.phases import Phase, Timeline
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron, load_neuron
from draftworth.planning.timeline import forecast
from draftworth.planning.timeline_text import phase_table
from draftworth.records.load import ConcurrencyLoad, Load
from draftworth.terminal import table_lines

EXPERIMENT = Path(__file__).resolve().parents[1] / "experiments" / "qwen3-32b.yaml"

# As the sample's llmperf pod has it: requests of one case and variant in one pass.
PASS_REQUESTS = 8
MEASURE = "measure in a loop"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One experiment by this design and by the published sequence, with the same assumptions."""

    experiment: ResolvedNeuron
    assumed: Assumptions
    published: PublishedAssumptions

    def published_run(self, *, second: bool) -> Timeline:
        """The sample's steps, one after the other; `second`: with every graph in its bucket."""
        assumed, published = self.assumed.bounds, self.published.bounds
        steps = {
            "node start": assumed("node_start_minutes"),
            "image pull": assumed("image_pull_minutes"),
        }
        compiling = published("whole_node_compile_ratio") * assumed("compile_minutes")
        for variant in () if second else self.experiment.variants:
            models = variant.checkpoints.values()
            download = transfer_minutes(models, self.assumed, "hub_gbit_per_s")
            steps[f"download for {variant.name}"] = download
            steps[f"compile {variant.name}"] = compiling
            steps[f"hand over after {variant.name}"] = published("hand_over_minutes")
        for variant in self.experiment.variants:
            steps[f"load {variant.name}"] = load_minutes(variant, self.assumed)
        steps |= {
            "install llmperf": published("llmperf_install_minutes"),
            MEASURE: self._loop_minutes(),
            "until a person stops it": published("unattended_minutes"),
            "empty node noticed": published("consolidate_minutes"),
            "node to zero": assumed("teardown_minutes"),
        }
        after = {name: (before,) for before, name in pairwise(steps)}
        return Timeline.of(
            [
                Phase(
                    name=name, minutes=length, after=after.get(name, ()), measured=name == MEASURE
                )
                for name, length in steps.items()
            ]
        )

    def _loop_minutes(self) -> Bounds:
        """As many passes as give this design's number of measured requests."""
        cases = len(self.experiment.cases)
        passes = [self._passes(load) * self._case_seconds(load) for load in self.experiment.loads]
        return exactly(cases, f"{cases} cases") * total(passes) / 60

    def _passes(self, load: Load) -> Bounds:
        """Those with as many measured requests at this load as this design's run has."""
        counts = RoundCounts.of(self.experiment)
        is_needed = self.experiment.loads.index(load) < counts.needed_further(1)
        least = counts.least * counts.repetitions + is_needed
        is_slowest = load == slowest_load(self.experiment, self.assumed)
        most = counts.least * counts.repetitions + max(is_needed, counts.all_further * is_slowest)
        rounds = Bounds(least, most).called("rounds", digits=None)
        return rounds * self.experiment.spec.workload.requests_per_round / PASS_REQUESTS

    def _case_seconds(self, load: Load) -> Bounds:
        """One case of one pass: llmperf's start, then all variants at once."""
        sending = [
            self._sending_seconds(variant, load).called(variant.name)
            for variant in self.experiment.variants
        ]
        return self.published.bounds("llmperf_start_seconds") + longest(sending)

    def _sending_seconds(self, variant: NeuronVariant, load: Load) -> Bounds:
        """The requests of a pass and no others: neither a warm-up nor fillers."""
        seats = self.experiment.spec.serving.max_num_seqs
        one = request_seconds(self.experiment, variant, self.assumed)
        if isinstance(load, ConcurrencyLoad):
            waves = math.ceil(PASS_REQUESTS / min(load.concurrency, seats))
            return exactly(waves, f"{waves} waves") * one
        best, worst = (
            load.sending_seconds(PASS_REQUESTS, warmup=0, request_seconds=seconds, seats=seats)
            for seconds in (one.best, one.worst)
        )
        words = load.sending_words(PASS_REQUESTS, warmup=0, seats=seats)
        return Bounds(best, worst, (f"{words} {one.factor}",))

    def rows(self) -> Iterator[tuple[str, Bounds, Bounds]]:
        """Billed minutes of a node, this design's and the sample's."""
        for run, second in (("first run", False), ("second run", True)):
            ours = forecast(self.experiment, self.assumed, second=second).unlimited
            theirs = self.published_run(second=second)
            for label, minutes in (
                ("before the first measured token", lambda r: r.billed_minutes_before_first_token),
                ("all that is not measuring", lambda r: r.billed_minutes - r.measured_minutes),
                ("in total", lambda r: r.billed_minutes),
            ):
                yield f"{run}, {label}", ours.bounds(minutes), theirs.bounds(minutes)

    def lines(self) -> Iterator[str]:
        """The comparison as text; the ratio is published over ours."""
        name = self.experiment.name
        yield f"minutes that an accelerator node is billed, {name}, best and worst case"
        titles = ("ours", "", "published", "", "ratio", "")
        headings = [f"{title}\n{case}" for title, case in zip(titles, CASES * 3, strict=True)]
        rows = (
            (
                label,
                *(f"{minutes.at(case):.1f}" for minutes in (ours, theirs) for case in CASES),
                *(f"{(theirs / ours).at(case):.2f}" for case in CASES),
            )
            for label, ours, theirs in self.rows()
        )
        yield from table_lines(rows, ["", *headings], numbers=range(1, 7), ruled=True)


def comparison_of(path: Path, assume: list[str]) -> Comparison:
    """Of an experiment file, with the shipped assumptions."""
    experiment, data = load_neuron(path), assumption_data()
    return Comparison(
        experiment=experiment,
        assumed=data.for_target(experiment.spec.target.model).replaced(assume),
        published=data.published_sequence,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiment", type=Path, default=EXPERIMENT)
    parser.add_argument("--phases", action="store_true", help="phases of the published first run")
    parser.add_argument(OPTION, action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    try:
        comparison = comparison_of(arguments.experiment, arguments.assume)
    except DraftworthError as error:
        print(f"idle: {error}", file=sys.stderr)
        return error.exit_code
    print(*comparison.lines(), sep="\n")
    if arguments.phases:
        print("\npublished, first run: minutes from the start of the node")
        print(*phase_table(comparison.published_run(second=False)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
