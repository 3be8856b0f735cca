"""How long measuring takes: a request, a block of requests, a round, all rounds."""

from __future__ import annotations

from draftworth.experiment.workload import Workload
from draftworth.measuring.rounds import least_rounds, most_rounds
from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds, exactly, longest, total
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
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
    """One round: every case against every variant, all variants at once or one by one."""
    blocks = [
        block_seconds(experiment, variant, load, assumed).called(variant.name)
        for variant in experiment.variants
    ]
    together = longest(blocks) if experiment.spec.workload.parallel else total(blocks)
    cases = len(experiment.cases)
    return exactly(cases, f"{cases} cases") * together / 60


def round_counts(work: Workload) -> Bounds:
    """Rounds of a run: those that `min_requests` needs, and those that `max_requests` has room for.

    The first is what a run with narrow intervals takes, the second one with wide ones.
    """
    asked = sampling(work)
    least, most = (count(asked, repetitions=1, loads=1) for count in (least_rounds, most_rounds))
    counts = Bounds(least, most)
    return counts.called("rounds", digits=None)
