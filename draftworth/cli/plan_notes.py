"""Settings that are allowed, but probably not intended: `plan`'s notes and CDK's warnings."""

import math
from collections.abc import Iterator, Sequence
from datetime import date

from draftworth.errors import UserInputError, counted
from draftworth.experiment import placement, variants
from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import NeuronExperiment, variants_of
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.planning import assumptions, capacity_block, prices
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.planning.timeline import BUDGET, DEADLINE, NODE_START, RunForecast
from draftworth.records.results import AS_SHIPPED
from draftworth.serving.dialects import neuron_dialect

_MORE = (
    "raise it, or ask for less (workload.max_requests, load, cases, output_tokens, or repetitions)"
)


def notes(
    experiment: ResolvedExperiment, *, run: RunForecast | None = None, today: date
) -> Iterator[str]:
    """Yield all notes of an experiment; `run` is its forecast if it runs on AWS."""
    yield from advice_lines(experiment)
    if isinstance(experiment, ResolvedNeuron) and (doubt := prices.price_doubt(experiment, today)):
        yield (
            f"aws.price is of {experiment.node_price.as_of.isoformat()}, which is {doubt}: "
            f"{prices.PRICE_RENEWAL}"
        )
    if run is not None:
        yield from time_advice(run)


def refuse_hopeless_limits(run: RunForecast) -> None:
    """Raise UserInputError if the deadline or the budget is less than the best case needs."""
    aws = run.experiment.spec.aws
    # A Capacity Block is paid in advance, so the budget does not end its nodes.
    free = aws.price is None or isinstance(aws.capacity, CapacityBlock)
    usd = 0.0 if free else run.usd(run.needed_minutes).best
    for key, given, best, unit in (
        (DEADLINE, float(aws.deadline_minutes), run.released_minutes.best, "minutes"),
        (BUDGET, aws.budget_usd, usd, "USD"),
    ):
        if best > given:
            raise UserInputError(
                f"{run.experiment.path}: {key}: given {given:g}, allowed: {math.ceil(best)} or "
                f"more, because even the best case needs {best:.0f} {unit}; next: {_MORE}"
            )


def time_advice(run: RunForecast) -> Iterator[str]:
    """Yield warnings if the worst case, or even the best case, exceeds the experiment's limits."""
    aws = run.experiment.spec.aws
    deadline, budget = f"{DEADLINE} {aws.deadline_minutes}", f"{BUDGET} {aws.budget_usd:.2f}"
    needs, costs = "needs {:.0f} minutes", "costs {:.2f} USD"
    advice = _search_limit_advice if run.search else _limit_advice
    yield from advice(deadline, aws.deadline_minutes, [*_needed(run, run.released_minutes)], needs)
    if aws.price is not None:
        usd = [run.usd(needed) for needed in _needed(run, run.needed_minutes)]
        yield from advice(budget, aws.budget_usd, usd, costs)
    yield from _stop_advice(run)
    if isinstance(aws.capacity, CapacityBlock):
        yield from _block_advice(run, capacity_block.PaidBlock.of(run.experiment, aws.capacity))


def _block_advice(run: RunForecast, block: capacity_block.PaidBlock) -> Iterator[str]:
    usable, needed = block.usable_minutes, run.needed_minutes
    if needed.worst > usable:
        may = "ends" if needed.best > usable else "may end"
        yield (
            f"a Capacity Block of {block.hours:g} hours {may} the run unfinished: its nodes may "
            f"run for {usable:.0f} minutes, the run needs {needed:.0f}"
        )
    if run.experiment.spec.aws.budget_usd < block.usd:
        yield (
            f"{BUDGET} {run.experiment.spec.aws.budget_usd:.2f} is less than the Capacity Block's "
            f"{block.usd:.2f} USD, which are paid in any case: to end a run at the budget saves "
            "nothing; give the block's price"
        )


def _needed(run: RunForecast, needed: assumptions.Bounds) -> Iterator[assumptions.Bounds]:
    """Yield the minutes that a run needs; for a search the shortest, an average and the longest."""
    if search := run.search:
        certain = needed.worst - run.others_minutes.worst
        average = certain + search.further_minutes(search.extent.average).worst
        yield assumptions.Bounds(needed.best, certain)
        yield assumptions.Bounds(needed.best, min(average, needed.worst))
    yield needed


def _search_limit_advice(
    given: str, limit: float, needed: Sequence[assumptions.Bounds], needs: str
) -> Iterator[str]:
    certain, average, most = needed
    worst, usual = needs.format(most.worst), needs.format(average.worst)
    if average.worst > limit:
        amount = "an average search has" if certain.worst <= limit else "are certain"
        yield (
            f"{given} may end the search with fewer candidates than {amount}: raise it; in the "
            f"worst case an average search {usual}, and all that may be measured {worst}"
        )
    elif most.worst > limit:
        yield (
            f"{given} may end the search before it ends by itself: the worst case {worst}; its "
            "answer is then of the candidates that were measured"
        )


def _unpriced_stop(experiment: ResolvedNeuron) -> Iterator[str]:
    if experiment.spec.search is None or experiment.spec.aws.price is not None:
        return
    stop = experiment.spec.search.stop
    given = {"last_start_usd": stop.last_start_usd, "tokens_per_day": stop.tokens_per_day}
    if names := [f"search.stop.{name}" for name, value in given.items() if value is not None]:
        yield (
            f"{' and '.join(names)}: without aws.price the cost of a candidate is not known, so no "
            "search ends by it; next: give aws.price"
        )


def _stop_advice(run: RunForecast) -> Iterator[str]:
    if run.search is None:
        return
    spans, last = run.unlimited.worst.spans, run.search.extent.certain[-1].variant
    # `search.stop` never leaves out the first candidate, so a single certain one gets no advice.
    begin = min(span.start for name, span in spans.items() if name.partition(" ")[2] == last)
    passed = begin - spans[NODE_START].end
    if len(run.search.extent.certain) > 1 and passed >= run.search.stop_minutes:
        yield (
            f"search.stop may leave out {last}, which is certainly measured otherwise: in the "
            f"worst case it is due {passed:.0f} minutes after `{NODE_START}`, and none begins "
            f"later than {run.search.stop_minutes:.0f}"
        )


def _limit_advice(
    given: str, limit: float, all_needed: Sequence[assumptions.Bounds], needs: str
) -> Iterator[str]:
    (needed,) = all_needed
    best, worst = needs.format(needed.best), needs.format(needed.worst)
    if needed.best > limit:
        yield f"{given} ends the run unfinished: even the best case {best}, the worst case {worst}"
    elif needed.worst > limit:
        yield f"{given} may end the run unfinished: the worst case {worst}; raise it"


def advice_lines(experiment: ResolvedExperiment) -> Iterator[str]:
    """Yield the notes on settings, without those on time and cost."""
    yield from _request_advice(experiment)
    yield from _output_advice(experiment)
    if isinstance(experiment, ResolvedNeuron):
        yield from _aws_advice(experiment.spec)
        yield from _unpriced_stop(experiment)


def _request_advice(experiment: ResolvedExperiment) -> Iterator[str]:
    work, serving = experiment.spec.workload, experiment.spec.serving
    most = max(load.in_flight or 1 for load in experiment.loads)
    if most > serving.max_num_seqs:
        yield (
            f"{most} requests in flight are more than serving.max_num_seqs "
            f"{serving.max_num_seqs}: requests queue in the server and TTFT includes that time"
        )
    # In languages with spaces, a text has at least as many tokens as words.
    prompts = (prompt for case in experiment.cases for prompt in case.prompts)
    longest = max(sum(len(text.split()) for text in prompt.texts) for prompt in prompts)
    if not work.input_lengths and longest > work.most_input_tokens:
        yield (
            f"the longest prompt has {longest} words, so more tokens than workload.input_tokens "
            f"{work.most_input_tokens}: requests may not fit serving.max_model_len"
        )


def _output_advice(experiment: ResolvedExperiment) -> Iterator[str]:
    spec, work = experiment.spec, experiment.spec.workload
    if work.fixed_output_length:
        yield (
            "workload.fixed_output_length: past its own end a model repeats itself, unlike in your "
            "traffic"
        )
    if work.temperature:
        yield (
            f"outputs are sampled at temperature {work.temperature:g}: a rehearsal has the target "
            "read them, elsewhere `estimate EXPERIMENT --answers RUN` tells whether speculation "
            "changes them; give another run another workload.seed, or its baseline draws the same "
            "outputs again"
        )
    if work.temperature and (doubt := spec.release_facts.doubtful_sampling):
        yield f"workload.temperature {work.temperature:g} on {spec.release}: {doubt}"


def _aws_advice(spec: NeuronExperiment) -> Iterator[str]:
    if spec.aws.region not in spec.accelerator.seen_in:
        yield (
            f"aws.region {spec.aws.region}: {spec.instance_type} has been seen in "
            f"{' and '.join(spec.accelerator.seen_in)}, not there; next: `python -m draftworth "
            "preflight EXPERIMENT --find`, which asks every region"
        )
    for value in spec.aws.example_values():
        yield f"{value} is an example, which no account has: put your own in its place"
    yield from _driver_advice(DriverAndRuntime.of(spec))
    if not spec.aws.admin_principal_arns:
        yield "aws.admin_principal_arns is empty: kubectl is refused; `make logs` needs none"
    if not spec.aws.public_access_cidrs:
        yield "aws.public_access_cidrs is empty: the Kubernetes API is private to the VPC"
    for model in spec.gated_models if spec.aws.hub_token_secret is None else ():
        yield (
            f"{model} is gated and aws.hub_token_secret names no secret: staging it fails, and no "
            "accelerator node starts"
        )
    yield from dict.fromkeys(_head_advice(spec))  # one note for candidates with the same head
    if spec.baseline_as_shipped:
        yield from _as_shipped_advice(spec)
    for model in spec.unpinned_models:
        yield f"{model} is not pinned to a commit: a branch or tag may move; give a commit"


def _driver_advice(pair: DriverAndRuntime) -> Iterator[str]:
    if pair.why_unfit:
        fitting = next(pair.fitting_releases(), "one with an older driver")
        yield (
            f"aws.pins.node_release {pair.node_release or 'is left out'}: {pair.why_unfit}, so no "
            f"server starts; pin {fitting}"
        )


def _head_advice(spec: NeuronExperiment) -> Iterator[str]:
    release = spec.release_facts
    for _, variant in variants_of(spec, variants.HubSpeculative):
        served, draft, facts = release.methods[variant.method], variant.draft, variant.draft.facts
        if catalog().methods[variant.method].fixed_window and facts is None:
            yield (
                f"the catalogue does not know {draft.model}: its window must be the block size that"
                f" it was trained for less 1, and the file says {variant.window}"
            )
        if served.draft_must and not (facts and release.dialect in facts.served_by):
            doubtful = facts is not None and release.dialect in facts.doubtful_on
            yield (
                f"{variant.method} on {spec.release}: the draft must {served.draft_must}; "
                f"{draft.model} {'likely does not' if doubtful else 'is not known to'}: read its "
                "model card before nodes are paid for"
            )


def _as_shipped_advice(spec: NeuronExperiment) -> Iterator[str]:
    slot = placement.place(spec).slots[-1]
    share = slot.devices / spec.accelerator.devices
    yield (
        f"baseline_as_shipped adds {AS_SHIPPED} on a slot of its own: "
        f"{counted(slot.devices, 'device')}, {share:.1%} of a node; verdicts compare with the "
        "baseline, and the report shows both"
    )
    if not neuron_dialect(spec).SPECULATION_DEPENDENT_DEFAULTS:
        yield (
            f"on {spec.release} nothing is known that the engine does differently without "
            f"speculation: {AS_SHIPPED} is the baseline once more"
        )
