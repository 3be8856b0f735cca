"""Notes on the workload, of experiments on AWS and of local ones."""

from collections.abc import Iterator

from draftworth.analysis.spread import MANY_REPETITIONS
from draftworth.planning.notes.note import Note
from draftworth.planning.resolved import ResolvedExperiment


def workload_notes(experiment: ResolvedExperiment) -> Iterator[Note]:
    """Yield the notes on an experiment's workload."""
    yield from _more_in_flight_than_seats(experiment)
    yield from _rate_takes_more_warm_up(experiment)
    yield from _prompts_longer_than_input_tokens(experiment)
    yield from _output_length_is_fixed(experiment)
    yield from _outputs_are_sampled(experiment)
    yield from _sampling_is_doubtful(experiment)
    yield from _verdict_holds_for_few_starts(experiment)


def _more_in_flight_than_seats(experiment: ResolvedExperiment) -> Iterator[Note]:
    in_flight = max(load.in_flight or 1 for load in experiment.loads)
    seats = experiment.spec.serving.max_num_seqs
    if in_flight > seats:
        yield Note(
            "more-in-flight-than-seats",
            f"{in_flight} requests in flight are more than serving.max_num_seqs {seats}: "
            "requests queue in the server and TTFT includes that time",
        )


def _rate_takes_more_warm_up(experiment: ResolvedExperiment) -> Iterator[Note]:
    work = experiment.spec.workload
    rates = [load for load in experiment.loads if load.arrivals_per_second is not None]
    sent = max((len(load.warmup_shares(work.warmup_requests)) for load in rates), default=0)
    if sent > work.warmup_requests:
        is_most = sent > work.requests_per_round
        advice = (
            f"; beside {work.requests_per_round} measured requests that is most of a block, so "
            "more workload.requests_per_round take less time in all"
        )
        yield Note(
            "rate-takes-more-warm-up",
            f"at a rate each block begins with {sent} requests of warm-up, not with "
            f"workload.warmup_requests {work.warmup_requests}: it begins on an idle server, where "
            f"TTFT is too short at first{advice if is_most else ''}",
        )


def _prompts_longer_than_input_tokens(experiment: ResolvedExperiment) -> Iterator[Note]:
    work = experiment.spec.workload
    prompts = (prompt for case in experiment.cases for prompt in case.prompts)
    # In languages with spaces, a text has at least as many tokens as words.
    words = max(sum(len(text.split()) for text in prompt.texts) for prompt in prompts)
    if not work.input_lengths and words > work.most_input_tokens:
        yield Note(
            "prompts-longer-than-input-tokens",
            f"the longest prompt has {words} words, so more tokens than workload.input_tokens "
            f"{work.most_input_tokens}: requests may not fit serving.max_model_len",
        )


def _output_length_is_fixed(experiment: ResolvedExperiment) -> Iterator[Note]:
    if experiment.spec.workload.fixed_output_length:
        yield Note(
            "output-length-is-fixed",
            "workload.fixed_output_length: past its own end a model repeats itself, unlike in "
            "your traffic",
        )


def _outputs_are_sampled(experiment: ResolvedExperiment) -> Iterator[Note]:
    temperature = experiment.spec.workload.temperature
    if temperature > 0:
        yield Note(
            "outputs-are-sampled",
            f"outputs are sampled at temperature {temperature:g}: a rehearsal has the target read "
            "them, elsewhere `estimate EXPERIMENT --answers RUN` tells whether speculation changes "
            "them; give another run another workload.seed, or its baseline draws the same outputs "
            "again",
        )


def _sampling_is_doubtful(experiment: ResolvedExperiment) -> Iterator[Note]:
    spec, temperature = experiment.spec, experiment.spec.workload.temperature
    if temperature > 0 and spec.release_facts.doubtful_sampling:
        yield Note(
            "sampling-is-doubtful",
            f"workload.temperature {temperature:g} on {spec.release}: "
            f"{spec.release_facts.doubtful_sampling}",
        )


def _verdict_holds_for_few_starts(experiment: ResolvedExperiment) -> Iterator[Note]:
    repetitions = experiment.spec.repetitions
    # A run of one repetition is plainly about one start, so it gets no note.
    if 1 < repetitions < MANY_REPETITIONS:
        yield Note(
            "verdict-holds-for-few-starts",
            f"the verdict holds for {repetitions} starts of the servers only: how much starts "
            f"differ is shown by `repetitions: {MANY_REPETITIONS}` or more",
        )
