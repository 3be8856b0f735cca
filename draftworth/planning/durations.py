"""Estimates how long transfers, rounds and a search of a run last in the best and worst case."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from draftworth.experiment.variants import HubModel
from draftworth.measuring.round_counts import RoundCounts
from draftworth.planning.assumptions import Assumptions, Bounds, Case
from draftworth.planning.resolved import NeuronVariant, ResolvedExperiment, ResolvedNeuron
from draftworth.planning.specify_run import sampling
from draftworth.records.load_shapes import Load
from draftworth.records.search_result import Candidate
from draftworth.searching.candidate_count import Extent

GBIT_PER_GIB = 8 * 2**30 / 1e9


def round_counts(experiment: ResolvedExperiment) -> RoundCounts:
    """Return the least and the greatest number of rounds that a run of the experiment can have."""
    spec = experiment.spec
    return RoundCounts(
        sampling=sampling(spec.workload),
        repetitions=spec.repetitions,
        loads=len(experiment.loads),
    )


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Estimates how long each step of a run lasts, in one case: the best or the worst.

    assumed: the speeds and durations from which the estimates are computed.
    """

    experiment: ResolvedNeuron
    assumed: Assumptions
    case: Case

    def assumption(self, name: str) -> float:
        return self.assumed[name].at(self.case)

    def stage_minutes(self) -> float:
        transfer = self.staged_gib() * GBIT_PER_GIB / self.assumption("hub_gbit_per_s") / 60
        return transfer + self.assumption("stager_start_minutes")

    def staged_gib(self) -> float:
        """Return the GiB that a first run stages; in the best case none if its bucket was kept."""
        spec = self.experiment.spec
        if spec.aws.checkpoints_bucket is not None and self.case == "best":
            return 0.0
        return self.checkpoints_gib(spec.models)

    def pulled_gib(self) -> float:
        """Return the GiB of serving images that all nodes together pull, once each."""
        return self.experiment.placement.nodes * self.assumption("image_gib")

    def checkpoints_gib(self, models: Iterable[HubModel]) -> float:
        """Return the size of the models' checkpoints together, by the catalogue where it knows."""
        unknown = self.assumption("unknown_checkpoint_gib")
        return sum((m.facts and m.facts.checkpoint_gib) or unknown for m in models)

    def load_minutes(self, variant: NeuronVariant) -> float:
        """Return the minutes from a pod's start until its server is ready, without compiling."""
        loading = self.transfer_minutes(variant.checkpoints.values(), "load_gbit_per_s")
        return self.assumption("self_test_minutes") + loading + self.assumption("warm_up_minutes")

    def transfer_minutes(self, models: Iterable[HubModel], speed: str) -> float:
        gib = self.checkpoints_gib(models)
        return gib * GBIT_PER_GIB / self.assumption(speed) / 60

    def block_seconds(self, variant: NeuronVariant, load: Load) -> float:
        """Return the seconds that one block (requests of one case to one variant) takes.

        Warm-up requests are included. Filler requests, which keep the load until the end, add no
        time: they are cancelled after the last measured request.
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

        In a search, a round measures only the baseline and one candidate, here the first.
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
        """Return the minutes that a repetition spends on rounds beyond `RoundCounts.least`.

        Best case: only rounds without which a load has no confidence interval (`needed_further`).
        Worst case: all rounds that `max_requests` allows, at the load with the longest rounds.
        """
        counts = round_counts(self.experiment)
        minutes = [self.round_minutes(load) for load in self.experiment.loads]
        if self.case == "worst":
            return counts.further(repetition) * max(minutes)
        return sum(minutes[: counts.needed_further(repetition)])

    def candidate_rounds_minutes(self) -> float:
        """Return the minutes of a candidate's rounds in a search, equal for all candidates."""
        (load,) = self.experiment.loads
        return self.least_minutes(load) + self.further_minutes(repetition=1)

    def _minutes_against(self, variants: Sequence[NeuronVariant], load: Load) -> float:
        blocks = [self.block_seconds(variant, load) for variant in variants]
        together = max(blocks) if self.experiment.spec.workload.parallel else sum(blocks)
        return len(self.experiment.cases) * together / 60


@dataclass(frozen=True, kw_only=True)
class SearchTime:
    """The candidates of a search, and the time that they need in the best and in the worst case.

    Candidates are compiled, loaded and measured one after another, on the same devices, beside the
    baseline.
    extent: the candidates that are measured in any case, and those that may be measured too.
    best, worst: estimates of a run's durations in each case.
    compiled: names of variants whose compiled graph is stored already.
    """

    experiment: ResolvedNeuron
    extent: Extent
    best: Durations
    worst: Durations
    compiled: Collection[str]

    @cached_property
    def certain(self) -> list[NeuronVariant]:
        return self._variants(self.extent.certain)

    @cached_property
    def candidate_minutes(self) -> Bounds:
        """Minutes by which each measured candidate of `extent.possible` makes a search longer.

        These are the candidates that only some searches measure. Each is assumed to load as slowly
        as the slowest of them, and to be compiled unless the graphs of all of them exist. The
        result is 0 if there is no such candidate.
        """
        further = self._variants(self.extent.possible)
        if not further:
            return Bounds(0.0, 0.0)
        is_compiled = all(variant.name in self.compiled for variant in further)

        def minutes(durations: Durations) -> float:
            loading = max(durations.load_minutes(variant) for variant in further)
            compiling = 0.0 if is_compiled else durations.assumption("compile_minutes")
            return compiling + loading + durations.candidate_rounds_minutes()

        return Bounds(minutes(self.best), minutes(self.worst))

    def further_minutes(self, candidates: float) -> Bounds:
        return self.candidate_minutes.times(candidates - len(self.extent.certain))

    def most_further_minutes(self, begun: Bounds) -> float:
        """Return the most minutes that the candidates of `extent.possible` may take together.

        No candidate begins after `stop_minutes`, but one that begins just before is measured to
        its end.
        begun: minutes from the search's start until all candidates of `extent.certain`, which are
            measured first, are measured; only then the others begin.
        """
        if begun.best >= self.stop_minutes:
            return 0.0
        ends = self.stop_minutes + self.candidate_minutes.worst
        room = max(0.0, ends - begun.worst)
        return min(self.further_minutes(self.extent.most).worst, room)

    def begun_in_all(self, begun: Bounds) -> Bounds:
        """Return how many candidates begin before `search.stop` forbids it, at best and at worst.

        begun: minutes from the search's start until all candidates of `extent.certain`, which are
            measured first, are measured.
        """
        certain, most = len(self.extent.certain), self.extent.most

        def count(passed: float, one: float) -> int:
            left = max(0.0, self.stop_minutes - passed)
            return most if left >= (most - certain) * one else certain + math.ceil(left / one)

        one = self.candidate_minutes
        return Bounds(count(begun.best, one.best), count(begun.worst, one.worst))

    @property
    def stop_minutes(self) -> float:
        """Minutes from a search's start after which no candidate begins; infinite: no limit."""
        search, limits = self.experiment.spec.search, [math.inf]
        if search and search.stop.last_start_hours is not None:
            limits.append(search.stop.last_start_hours * 60)
        usd = search.stop.last_start_usd if search else None
        if usd is not None and self.experiment.spec.aws.price is not None:
            limits.append(usd / self.experiment.usd_per_hour * 60)
        return min(limits)

    def _variants(self, candidates: Iterable[Candidate]) -> list[NeuronVariant]:
        by_name = {variant.name: variant for variant in self.experiment.variants}
        return [by_name[candidate.variant] for candidate in candidates]
