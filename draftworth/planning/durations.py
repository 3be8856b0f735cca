"""Estimates how long a run's parts last in the best or worst case: transfers, requests, rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from draftworth.experiment.variants import HubModel
from draftworth.measuring.schedule import RoundCounts
from draftworth.planning.assumptions import Assumptions, Case
from draftworth.planning.resolved import NeuronVariant, ResolvedExperiment, ResolvedNeuron
from draftworth.planning.run_specification import sampling
from draftworth.records.load import Load

GBIT_PER_GIB = 8 * 2**30 / 1e9


def round_counts(experiment: ResolvedExperiment) -> RoundCounts:
    """Return how many rounds a run of the experiment has at least, and at most."""
    spec = experiment.spec
    return RoundCounts(
        sampling=sampling(spec.workload),
        repetitions=spec.repetitions,
        loads=len(experiment.loads),
    )


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Estimates the durations of a run's parts in one case, best or worst, from `assumed`."""

    experiment: ResolvedNeuron
    assumed: Assumptions
    case: Case

    def assumption(self, name: str) -> float:
        return self.assumed[name].at(self.case)

    def stage_minutes(self) -> float:
        transfer = self.transfer_minutes(self.experiment.spec.models, "hub_gbit_per_s")
        return transfer + self.assumption("stager_start_minutes")

    def load_minutes(self, variant: NeuronVariant) -> float:
        """Return the minutes from a pod's start until its server is ready, without compiling."""
        loading = self.transfer_minutes(variant.checkpoints.values(), "load_gbit_per_s")
        return self.assumption("self_test_minutes") + loading + self.assumption("warm_up_minutes")

    def transfer_minutes(self, models: Iterable[HubModel], speed: str) -> float:
        unknown = self.assumption("unknown_checkpoint_gib")
        gib = sum((m.facts and m.facts.checkpoint_gib) or unknown for m in models)
        return gib * GBIT_PER_GIB / self.assumption(speed) / 60

    def block_seconds(self, variant: NeuronVariant, load: Load) -> float:
        """Return the seconds that one block (one case, one variant) takes, with its warm-up.

        Filler requests add no time: they are cancelled after the last measured request.
        """
        work, serving = self.experiment.spec.workload, self.experiment.spec.serving
        speed = "speculative_ms_per_token" if variant.speculates else "baseline_ms_per_token"
        decoding_seconds = work.output_tokens * self.assumption(speed) / 1000
        sending_seconds = load.sending_seconds(
            work.requests_per_round,
            warmup=work.warmup_requests,
            request_seconds=self.assumption("first_token_seconds") + decoding_seconds,
            seats=serving.max_num_seqs,
        )
        return sending_seconds + self.assumption("block_overhead_seconds")

    def round_minutes(self, load: Load) -> float:
        """Return the minutes of one round at one load: the blocks of all cases and all variants.

        In a search, a round measures only the baseline and one candidate.
        """
        experiment = self.experiment
        return self._minutes_against([*filter(experiment.starts_up, experiment.variants)], load)

    def control_minutes(self) -> float:
        servers = [self.experiment.baseline] * 2
        rounds = sum(self._minutes_against(servers, load) for load in self.experiment.loads)
        return round_counts(self.experiment).least * rounds

    def least_minutes(self, load: Load) -> float:
        return round_counts(self.experiment).least * self.round_minutes(load)

    def further_minutes(self, repetition: int) -> float:
        """Return the minutes of a repetition's rounds beyond the least number that it always has.

        Best case: only rounds without which a load has no confidence interval (`needed_further`).
        Worst case: all rounds that `max_requests` allows, at the load with the longest rounds.
        """
        counts = round_counts(self.experiment)
        minutes = [self.round_minutes(load) for load in self.experiment.loads]
        if self.case == "worst":
            return counts.further(repetition) * max(minutes)
        return sum(minutes[: counts.needed_further(repetition)])

    def candidate_rounds_minutes(self) -> float:
        """Return the minutes of a candidate's rounds, assumed to be equal for all candidates."""
        (load,) = self.experiment.loads
        return self.least_minutes(load) + self.further_minutes(repetition=1)

    def _minutes_against(self, variants: Sequence[NeuronVariant], load: Load) -> float:
        blocks = [self.block_seconds(variant, load) for variant in variants]
        together = max(blocks) if self.experiment.spec.workload.parallel else sum(blocks)
        return len(self.experiment.cases) * together / 60
