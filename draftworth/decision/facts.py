"""Computes once everything that a report says about a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter

from draftworth.analysis import checks, ratios
from draftworth.analysis.clustering import Sample
from draftworth.analysis.control import without_control
from draftworth.analysis.engine_loss import EngineLoss, engine_losses_of
from draftworth.analysis.likelihood_check import AnswersCheck, judged, judged_variants
from draftworth.analysis.limits import Goodput, RateBounds, goodput
from draftworth.analysis.output_differences import Divergence, divergences, partings
from draftworth.analysis.pairing import Traffic, counting, paired, samples_of
from draftworth.analysis.prefix_cache import ColdEvidence, cached_share
from draftworth.analysis.prompt_costs import (
    ExampleOutput,
    PromptCost,
    example_outputs,
    prompt_costs,
)
from draftworth.analysis.repetitions import RepetitionFacts, repetitions_of
from draftworth.analysis.shortfall import Shortfall, shortfall
from draftworth.analysis.statistics import Estimate, quantile_estimate
from draftworth.analysis.summary import Group, VariantSummary, groups_of, summarize
from draftworth.decision.all_traffic import AllTraffic
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.decide import decide
from draftworth.decision.handover import Handover, handover_of
from draftworth.decision.ladder import Contexts, Ladder, contexts_of, ladders_of
from draftworth.decision.rates import highest_rates_of
from draftworth.decision.run_decision import Decision
from draftworth.decision.verdict import Comparison, compare
from draftworth.metrics import definitions, steps
from draftworth.metrics.definitions import Metric
from draftworth.records.findings import ClaimFinding
from draftworth.records.load_shapes import Load
from draftworth.records.results import AS_SHIPPED, CONTROL, BlockResult, RequestRecord, RunResult
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcripts

QUANTILE_SHARES = (0.5, 0.9, 0.95, 0.99)
# `verdict.compare` with all arguments of a run filled in, except traffic, variant and baseline,
# which the caller gives.
_Compare = Callable[..., Comparison]


@dataclass(frozen=True, kw_only=True)
class VariantFacts:
    """All figures of one variant in one group (a prompt class at one load), with cross-checks.

    records: all requests of the variant in the group.
    comparison: the comparison with the baseline; None for the baseline itself.
    against_shipped: the comparison with the baseline at the engine's default settings; None: not
        measured.
    shortfall: how much more to measure until the cost ratio's interval is as narrow as the
        experiment asks for; None: there is no interval, it decides and the run ended for that, or
        more requests would be no cure (`Comparison.obstacle`).
    server: the check of the mean ITL against the server's histogram; None: not possible.
    accepted_at: for n = 1, 2, ..., the share of steps that accept drafted token n; empty: not
        known.
    break_even: the tokens per step that the variant needs; None: not known.
    blocks: the variant's blocks in the group.
    step_latencies_s: every time between two chunks of a request; empty if a step arrives in several
        chunks, or if the run keeps no chunk times.
    divergences: where greedy outputs differ from the baseline's.
    """

    summary: VariantSummary
    records: tuple[RequestRecord, ...]
    comparison: Comparison | None
    against_shipped: Comparison | None
    shortfall: Shortfall | None
    server: checks.ServerCheck | None
    acceptance: checks.AcceptanceCheck
    accepted_at: tuple[float, ...]
    break_even: checks.BreakEven | None
    blocks: tuple[BlockResult, ...]
    step_latencies_s: tuple[float, ...]
    divergences: tuple[Divergence, ...]

    @property
    def name(self) -> str:
        return self.summary.variant

    @property
    def label(self) -> str:
        return f"{self.summary.group.label}, {self.name}"

    def value(self, metric: Metric) -> float | None:
        return self.summary.value(metric)

    @cached_property
    def quantiles(self) -> dict[tuple[Metric, float | None], Estimate]:
        """Quantiles over the requests, by (metric, share of requests below the quantile).

        They are in seconds or in tokens per step. If the share is None, the value is the mean. Only
        some pages show them, so they are computed when they are asked for.
        """
        requests = samples_of(self.blocks, self.summary.group, self.name)
        return dict(_quantiles(requests, steps.step_counting(self.blocks)))


@dataclass(frozen=True, kw_only=True)
class GroupFacts:
    """The figures of all variants in one group: a prompt class at one load.

    variants: the baseline is the first; the others follow in the run's order.
    """

    group: Group
    variants: tuple[VariantFacts, ...]

    @property
    def baseline(self) -> VariantFacts:
        return self.variants[0]

    @property
    def speculative(self) -> tuple[VariantFacts, ...]:
        return self.variants[1:]


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run and everything that a report says about it.

    run: the run without its control, which is the baseline on a second server.
    control: all blocks of the rounds in which the control was measured.
    answers: checks of whether each variant's outputs are the target model's.
    groups: the figures of each prompt class at each load.
    mixes: comparisons in the traffic mix at each load; empty with only one class.
    highest_rates: for every variant and prompt length, between which request rates the variant
        ceases to keep the latency limits; empty without limits or rates. With several speculative
        variants, the intervals behind them are wider (`rates.highest_rates_of`).
    decision: what to serve.
    ladders: for each prompt length, the comparisons at all concurrencies in the mix or, without a
        mix, in each class.
    contexts: the `ladders` of one traffic put together, if several prompt lengths were measured.
    goodputs: the goodput of every variant in each traffic, if latencies are limited.
    repetitions: the figures of each repetition, if there are several.
    engine_losses: what engines lose of the tokens per step that texts and drafts allow; empty if
        neither `estimate` nor `compare` computed what they allow.
    claims: whether the run reproduces the published figures of a claims file; empty without a file.
    all_traffic: the verdicts for all prompts of a log, from which the measured ones were chosen;
        empty without the record of the choice.
    measured_as: the run with its own weights, prices and limits, if it is judged with others
        (`judged_anew`); None: it is judged with its own.
    prompt_costs: the cost of each prompt in the comparison that the decision is about, the one that
        gains most first; empty if the decision is not about a cost. example_outputs: outputs of
        the first and the last of them, if the run keeps texts.
    """

    run: Run
    control: tuple[BlockResult, ...]
    answers: tuple[AnswersCheck, ...]
    groups: tuple[GroupFacts, ...]
    mixes: tuple[Comparison, ...]
    highest_rates: tuple[RateBounds, ...]
    decision: Decision
    ladders: tuple[Ladder, ...] = ()
    contexts: tuple[Contexts, ...] = ()
    goodputs: tuple[Goodput, ...] = ()
    repetitions: tuple[RepetitionFacts, ...]
    engine_losses: tuple[EngineLoss, ...] = ()
    claims: tuple[ClaimFinding, ...] = ()
    all_traffic: tuple[AllTraffic, ...] = ()
    measured_as: Run | None = None
    prompt_costs: tuple[PromptCost, ...] = ()
    example_outputs: tuple[ExampleOutput, ...] = ()

    @cached_property
    def speculative(self) -> tuple[VariantFacts, ...]:
        return tuple(v for group in self.groups for v in group.speculative)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the comparisons in the traffic mix, then those in each class.

        Those in the mix include comparisons with the baseline at the engine's default settings;
        those in the classes are with the run's baseline only.
        """
        return (*self.mixes, *(c for v in self.speculative if (c := v.comparison)))

    @cached_property
    def variants(self) -> tuple[VariantFacts, ...]:
        return tuple(v for group in self.groups for v in group.variants)

    @cached_property
    def cached_shares(self) -> Mapping[str, float]:
        """By variant, the share (0 to 1) of prompt tokens that came from its server's cache.

        Variants whose servers count none, or do not count them, are left out.
        """
        shares = {
            name: cached_share([b for b in self.run.blocks if b.variant == name])
            for name in self.run.result.variants
        }
        return {name: share for name, share in shares.items() if share}

    @cached_property
    def handover(self) -> Handover:
        """The figures for the people who serve the model, which the answer and two pages give."""
        return handover_of(self.run, self.decision)


def facts_of(run: Run, transcripts: Transcripts) -> RunFacts:
    """Compute everything that a report says about a run.

    `claims`, `all_traffic` and `measured_as` are left empty, because they need more than the run.
    transcripts: the texts and chunk times of its outputs; empty if the run kept none.
    """
    measured, control = without_control(run.blocks)
    result = _without_control(run.result)
    run = replace(run, result=result, blocks=measured)
    parted = partings(run, control, transcripts, but=judged_variants(run.likelihoods))
    answers = (*map(judged, run.likelihoods), *parted)
    compare_in = partial(
        compare,
        measured,
        limits=result.limits,
        price=result.price,
        sampled=result.temperature > 0,
        control=control,
        transcripts=transcripts,
        answers=answers,
        confidence=confidence_of_each(1, looks=result.looks),
        cold=ColdEvidence.in_run(result),
    )
    of_groups = groups_of(measured)
    groups = tuple(_group_facts(run, group, transcripts, compare_in) for group in of_groups)
    mixes = tuple(_mixes(run, compare_in))
    of_classes = [c for g in groups for v in g.speculative if (c := v.comparison)]
    ladders = ladders_of(run, mixes or of_classes)
    highest_rates = tuple(highest_rates_of(run, weights_of(run)))
    decision = decide(run, mixes=mixes, of_classes=of_classes, highest_rates=highest_rates)
    costs = _prompt_costs(run, decision)
    return RunFacts(
        run=run,
        control=control,
        answers=answers,
        groups=groups,
        mixes=mixes,
        highest_rates=highest_rates,
        decision=decision,
        ladders=ladders,
        contexts=contexts_of(ladders),
        goodputs=tuple(_goodputs(run, [*dict.fromkeys(mix.traffic.load for mix in mixes)])),
        repetitions=tuple(r for c in (*mixes, *of_classes) for r in _repetitions(run, c)),
        engine_losses=engine_losses_of(run),
        prompt_costs=costs,
        example_outputs=tuple(example_outputs(costs, transcripts)),
    )


def _prompt_costs(run: Run, decision: Decision) -> tuple[PromptCost, ...]:
    comparison = decision.comparison
    if comparison is None or comparison.cost_ratio is None:
        return ()
    of_sides = {"variant": comparison.variant, "baseline": comparison.baseline}
    pairs = paired(run.blocks, comparison.traffic, **of_sides)
    return prompt_costs(pairs, factor=ratios.share_ratio(run.result.price, **of_sides))


def weights_of(run: Run) -> Mapping[str, float]:
    """Return each prompt class's share (0 to 1) of the output tokens in the traffic mix.

    The run's own weights may be replaced (`Run.class_weights`). Without any, all shares are equal.
    """
    classes = dict.fromkeys(block.prompt_class for block in run.blocks)
    equal = dict.fromkeys(classes, 1 / max(1, len(classes)))
    return run.class_weights or run.result.class_weights or equal


def _without_control(result: RunResult) -> RunResult:
    variants = tuple(name for name in result.variants if name != CONTROL)
    starts = {name: start for name, start in result.server_starts.items() if name != CONTROL}
    return replace(result, variants=variants, server_starts=starts)


def _goodputs(run: Run, mixed_loads: Sequence[Load]) -> Iterator[Goodput]:
    result = run.result
    weights = weights_of(run)
    mixes = [Traffic(weights=weights, load=load) for load in mixed_loads]
    for traffic in (*mixes, *(Traffic.of(group) for group in groups_of(run.blocks))):
        for variant in result.variants:
            if figures := goodput(run.blocks, traffic, result.limits, variant, result.price):
                yield figures


def _repetitions(run: Run, c: Comparison) -> Iterator[RepetitionFacts]:
    yield from repetitions_of(
        run,
        c.traffic,
        name=c.name,
        variant=c.variant,
        baseline=c.baseline,
        confidence=confidence_of_each(1, looks=run.result.looks),
    )


def _mixes(run: Run, compare_in: _Compare) -> Iterator[Comparison]:
    result, weights = run.result, weights_of(run)
    if len(weights) < 2:
        return
    baselines = [result.baseline, *(v for v in result.variants if v == AS_SHIPPED)]
    for load in dict.fromkeys(group.load for group in groups_of(run.blocks)):
        for place, baseline in enumerate(baselines):
            for variant in result.variants:
                if variant not in baselines[: place + 1]:
                    traffic = Traffic(weights=weights, load=load)
                    yield compare_in(traffic, variant=variant, baseline=baseline)


def _group_facts(
    run: Run, group: Group, transcripts: Transcripts, compare_in: _Compare
) -> GroupFacts:
    result = run.result
    names = [result.baseline, *(v for v in result.variants if v != result.baseline)]
    summaries = [summarize(run.blocks, group, name, result.price) for name in names]
    plain = summaries[0]
    return GroupFacts(
        group=group,
        variants=tuple(
            _variant_facts(run, summary, plain, transcripts, compare_in) for summary in summaries
        ),
    )


def _variant_facts(
    run: Run,
    summary: VariantSummary,
    plain: VariantSummary,
    transcripts: Transcripts,
    compare_in: _Compare,
) -> VariantFacts:
    group, name, baseline = summary.group, summary.variant, run.result.baseline
    blocks = group.blocks(run.blocks, name)
    records = tuple(r for b in blocks for r in b.requests)
    count = steps.step_counting(blocks)
    acceptance = checks.AcceptanceCheck(
        counted=summary.value(definitions.ACCEPTANCE_RATE),
        tokens_per_step=summary.value(definitions.TOKENS_PER_STEP),
        most=(most := run.result.max_tokens_per_step.get(name)),
        by_requests=definitions.acceptance_by_requests(blocks),
        tokens_per_chunk=steps.tokens_per_chunk(blocks),
        whole_windows=steps.draft_whole_windows(blocks, most),
    )
    comparison = shipped = predicted = None
    differing: tuple[Divergence, ...] = ()
    if name != baseline:
        traffic, against = Traffic.of(group), {"variant": name, "baseline": baseline}
        comparison = compare_in(traffic, **against)
        if AS_SHIPPED in run.result.variants and name != AS_SHIPPED:
            shipped = compare_in(traffic, variant=name, baseline=AS_SHIPPED)
        pairs = counting(paired(run.blocks, traffic, **against))
        if comparison.compared_outputs:
            differing = divergences(pairs, transcripts)
        plain_itl_s = plain.value(definitions.INTER_TOKEN_LATENCY)
        share = ratios.share_ratio(run.result.price, name, baseline)
        predicted = checks.break_even(
            records, count, acceptance, baseline_itl_s=plain_itl_s, share=share
        )
    return VariantFacts(
        summary=summary,
        records=records,
        comparison=comparison,
        against_shipped=shipped,
        shortfall=_shortfall(run.result, comparison) if comparison else None,
        server=checks.server_check(blocks),
        acceptance=acceptance,
        accepted_at=checks.acceptance_by_position(blocks),
        break_even=predicted,
        blocks=tuple(blocks),
        step_latencies_s=tuple(
            latency_s
            for r in records
            if not acceptance.split and r.counts and r.request_id in transcripts
            for latency_s in transcripts[r.request_id].step_latencies_s
        ),
        divergences=differing,
    )


def _shortfall(result: RunResult, comparison: Comparison) -> Shortfall | None:
    ended_for_it = result.looks > 1 and comparison.judgement.is_decided
    if ended_for_it or comparison.obstacle:
        return None
    return shortfall(comparison.cost_ratio, target_width=result.target_interval_width)


def _quantiles(
    requests: Sequence[tuple[Sample, RequestRecord]], count: steps.StepCounting | None
) -> Iterator[tuple[tuple[Metric, float | None], Estimate]]:
    values: dict[Metric, Callable[[RequestRecord], float | None]] = {
        metric: attrgetter(metric.field) for metric in definitions.shown_latencies()
    }
    if count:
        values[definitions.TOKENS_PER_STEP] = count.tokens_per_step
    for metric, value_of in values.items():
        samples = [
            place._replace(value=value)
            for place, record in requests
            if record.counts and (value := value_of(record)) is not None
        ]
        for share in QUANTILE_SHARES if samples else ():
            yield (metric, share), quantile_estimate(samples, share)
        if mean := ratios.log_of_sums(requests, ratios.mean_of(value_of)):
            yield (metric, None), mean.estimate()
