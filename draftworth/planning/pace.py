"""How long requests take, from assumed speeds: the measuring part of the time line."""

from __future__ import annotations

import math
from dataclasses import dataclass

from draftworth.experiment.model import Workload
from draftworth.measuring.runner import rounds
from draftworth.planning.assumptions import Assumptions, Bound, Bounds
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.planning.run_specification import sampling
from draftworth.records.load import Load


@dataclass(frozen=True, kw_only=True)
class Pace:
    """One variant's speed: seconds to the first token, and a token's milliseconds after it."""

    variant: str
    first_token_seconds: Bounds
    ms_per_token: Bounds
    output_tokens: int

    def request_seconds(self, bound: Bound) -> float:
        """One request, from sent to its last token."""
        decoding_seconds = self.output_tokens * self.ms_per_token.at(bound) / 1000
        return self.first_token_seconds.at(bound) + decoding_seconds


def pace_of(experiment: ResolvedNeuron, variant: NeuronVariant, assumed: Assumptions) -> Pace:
    """A variant's assumed speed on the experiment's outputs."""
    speed = (
        assumed.baseline_ms_per_token if variant.is_baseline else assumed.speculative_ms_per_token
    )
    return Pace(
        variant=variant.name,
        first_token_seconds=assumed.first_token_seconds.bounds,
        ms_per_token=speed.bounds,
        output_tokens=experiment.spec.workload.output_tokens,
    )


def round_counts(work: Workload) -> Bounds:
    """Rounds of a run: those that `min_requests` needs, and those that `max_requests` has room for.

    The first is what a run with narrow intervals takes, the second one with wide ones.
    """
    most = rounds(sampling(work))
    needed = math.ceil(work.min_requests / work.requests_per_round)
    return Bounds(low=min(needed, most), high=most)


def round_minutes(
    experiment: ResolvedNeuron, assumed: Assumptions, load: Load, *, bound: Bound
) -> float:
    """One round: every case against every variant, warm-up included, as the runner does it."""
    blocks = [
        block_seconds(experiment, variant, assumed, load, bound=bound)
        for variant in experiment.variants
    ]
    together = max(blocks) if experiment.spec.workload.parallel else sum(blocks)
    return len(experiment.cases) * together / 60


def block_seconds(
    experiment: ResolvedNeuron,
    variant: NeuronVariant,
    assumed: Assumptions,
    load: Load,
    *,
    bound: Bound,
) -> float:
    """One case against one variant: the warm-up, then the measured requests of a round."""
    work, seats = experiment.spec.workload, experiment.spec.serving.max_num_seqs
    pace = pace_of(experiment, variant, assumed)
    sending = (
        load.sending_seconds(requests, request_seconds=pace.request_seconds(bound), seats=seats)
        for requests in (work.warmup_requests, work.requests_per_round)
    )
    return sum(sending) + assumed.block_overhead_seconds.at(bound)
