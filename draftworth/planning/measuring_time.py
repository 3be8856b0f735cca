"""How long measuring takes: a request, a block of requests, a round, all rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draftworth.measuring.run_specification import Sampling
from draftworth.measuring.schedule import further_rounds, least_rounds
from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds, exactly, longest, total
from draftworth.planning.resolved import NeuronVariant, ResolvedExperiment, ResolvedNeuron
from draftworth.planning.run_specification import sampling
from draftworth.records.load import Load


def request_seconds(
    experiment: ResolvedNeuron, variant: NeuronVariant, assumed: Assumptions
) -> Bounds:
    """One request to one variant."""
    output_tokens = experiment.spec.workload.output_tokens
    speed = "speculative_ms_per_token" if variant.speculates else "baseline_ms_per_token"
    most = "" if experiment.spec.workload.fixed_output_length else "at most "
    tokens = exactly(output_tokens, f"{most}{output_tokens} tokens")
    return assumed.bounds("first_token_seconds") + tokens * assumed.bounds(speed) / 1000


def block_seconds(
    experiment: ResolvedNeuron, variant: NeuronVariant, load: Load, assumed: Assumptions
) -> Bounds:
    """One case against one variant: the warm-up runs into the measured requests of a round.

    Fillers take no time: they are cancelled when the last measured request has ended.
    """
    work, seats = experiment.spec.workload, experiment.spec.serving.max_num_seqs
    one = request_seconds(experiment, variant, assumed)
    best, worst = (
        load.sending_seconds(
            work.requests_per_round,
            warmup=work.warmup_requests,
            request_seconds=seconds,
            seats=seats,
        )
        for seconds in (one.best, one.worst)
    )
    words = load.sending_words(work.requests_per_round, warmup=work.warmup_requests, seats=seats)
    sending = Bounds(best, worst, (f"{words} {one.factor}",))
    return sending + assumed.bounds("block_overhead_seconds")


def round_minutes(experiment: ResolvedNeuron, load: Load, assumed: Assumptions) -> Bounds:
    """One round: every case against every variant, all variants at once or one by one.

    Of a search, against the baseline and one candidate: those that are there at the same time.
    """
    variants = [variant for variant in experiment.variants if experiment.starts_up(variant)]
    return _minutes_against(experiment, variants, load, assumed)


def control_round_minutes(experiment: ResolvedNeuron, load: Load, assumed: Assumptions) -> Bounds:
    """One round of a control: every case against both servers of the baseline."""
    baseline = next(variant for variant in experiment.variants if variant.is_baseline)
    return _minutes_against(experiment, (baseline, baseline), load, assumed)


def _minutes_against(
    experiment: ResolvedNeuron,
    variants: Sequence[NeuronVariant],
    load: Load,
    assumed: Assumptions,
) -> Bounds:
    blocks = [
        block_seconds(experiment, variant, load, assumed).called(variant.name)
        for variant in variants
    ]
    together = longest(blocks) if experiment.spec.workload.parallel else total(blocks)
    cases = len(experiment.cases)
    return exactly(cases, f"{cases} cases") * together / 60


@dataclass(frozen=True, kw_only=True)
class RoundCounts:
    """How many rounds a run sends, by the rules of `measuring.rounds`.

    The least is what a run takes whose intervals are narrow at once; one whose intervals stay wide
    spends the whole budget, at worst where a round takes longest.
    """

    sampling: Sampling
    repetitions: int
    loads: int

    @classmethod
    def of(cls, experiment: ResolvedExperiment) -> RoundCounts:
        """Of an experiment."""
        spec = experiment.spec
        return cls(
            sampling=sampling(spec.workload),
            repetitions=spec.repetitions,
            loads=len(experiment.loads),
        )

    @property
    def least(self) -> int:
        """Of each load in each repetition, and in its control."""
        return least_rounds(self.sampling, repetitions=self.repetitions, loads=self.loads)

    def further(self, repetition: int) -> int:
        """Of a repetition beside the least, at most."""
        return further_rounds(
            self.sampling,
            repetition=repetition,
            repetitions=self.repetitions,
            loads=self.loads,
        )

    def needed_further(self, repetition: int) -> int:
        """Of those, what even narrow intervals take: one round of a load gives no interval, so
        each load gets a second one at once, the first loads first."""
        is_lone = self.least == 1 and repetition == 1
        return min(self.further(repetition), self.loads) if is_lone else 0

    @property
    def all_least(self) -> int:
        """Of all loads and repetitions, without controls."""
        return self.least * self.repetitions * self.loads

    @property
    def all_further(self) -> int:
        """Of all repetitions."""
        return sum(self.further(number) for number in range(1, self.repetitions + 1))


def slowest_load(experiment: ResolvedNeuron, assumed: Assumptions) -> Load:
    """At which a round takes longest."""
    return max(experiment.loads, key=lambda load: round_minutes(experiment, load, assumed).worst)
