"""Everything that a report says about a run, computed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from draftworth.analysis import metrics
from draftworth.analysis.checks import (
    ACCEPTANCE_TOLERANCE,
    SERVER_TOLERANCE,
    AcceptanceCheck,
    BreakEven,
    ServerCheck,
    acceptance_by_position,
    break_even,
    server_check,
)
from draftworth.analysis.goodput import Goodput, goodput
from draftworth.analysis.ladder import Contexts, Ladder, contexts_of, ladders_of
from draftworth.analysis.lengths import wrong_input_tokens
from draftworth.analysis.limits import highest_rate
from draftworth.analysis.metrics import (
    ACCEPTANCE_RATE,
    INTER_TOKEN_LATENCY,
    TOKENS_PER_STEP,
    Metric,
)
from draftworth.analysis.outputs import Divergence, divergences
from draftworth.analysis.pairing import Traffic, counting, paired, samples_of
from draftworth.analysis.statistics import (
    Estimate,
    Shortfall,
    quantile_estimate,
    shortfall,
)
from draftworth.analysis.summary import Group, VariantSummary, groups_of, summarize
from draftworth.analysis.verdict import Comparison, compare
from draftworth.records.load import Load, PoissonLoad
from draftworth.records.reading import Run
from draftworth.records.results import AS_SHIPPED, CONTROL, BlockResult, RequestRecord
from draftworth.records.transcripts import Transcripts

QUANTILE_SHARES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class VariantFacts:
    """One variant in one group, with the cross-checks on it; None: there are none.

    shortfall: what the cost ratio's interval lacks to be as narrow as was asked for.
    quantiles: of latencies, by metric and share, seconds. step_latencies_s: from transcripts.
    against_shipped: a speculative variant's comparison with the baseline as shipped, where there is
    one; `comparison` is the one with the baseline.
    """

    summary: VariantSummary
    records: tuple[RequestRecord, ...]
    comparison: Comparison | None
    against_shipped: Comparison | None
    shortfall: Shortfall | None
    server: ServerCheck | None
    acceptance: AcceptanceCheck
    accepted_at: tuple[float, ...]
    break_even: BreakEven | None
    quantiles: dict[tuple[Metric, float], Estimate]
    step_latencies_s: tuple[float, ...]
    divergences: tuple[Divergence, ...]

    @property
    def name(self) -> str:
        """The variant."""
        return self.summary.variant

    @property
    def label(self) -> str:
        """`structured at c4, k7`."""
        return f"{self.summary.group.label}, {self.name}"

    def value(self, metric: Metric) -> float | None:
        """One figure, in the records' units."""
        return self.summary.value(metric)


@dataclass(frozen=True, kw_only=True)
class GroupFacts:
    """One prompt class at one load: the baseline first, then the others in the run's order."""

    group: Group
    variants: tuple[VariantFacts, ...]

    @property
    def baseline(self) -> VariantFacts:
        """The variant without speculation."""
        return self.variants[0]

    @property
    def speculative(self) -> tuple[VariantFacts, ...]:
        """The others."""
        return self.variants[1:]


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run and all that is known about it.

    highest_rates: by variant and length of prompts, where arrivals came at rates and latencies are
        limited.
    ladders: of the traffic mix, or of each class where there is none, over the concurrencies.
    contexts: of the same over the lengths of prompts, where there are several.
    goodputs: of every variant in each traffic that a verdict is given on, where there are limits.
    """

    run: Run
    groups: tuple[GroupFacts, ...]
    mixes: tuple[Comparison, ...]
    highest_rates: Mapping[str, PoissonLoad | None]
    ladders: tuple[Ladder, ...] = ()
    contexts: tuple[Contexts, ...] = ()
    goodputs: tuple[Goodput, ...] = ()

    @cached_property
    def speculative(self) -> tuple[VariantFacts, ...]:
        """Every speculative variant of every group."""
        return tuple(v for group in self.groups for v in group.speculative)

    @cached_property
    def variants(self) -> tuple[VariantFacts, ...]:
        """Every variant of every group."""
        return tuple(v for group in self.groups for v in group.variants)

    @cached_property
    def attention(self) -> tuple[str, ...]:
        """What a reader must know before believing the figures, one sentence each."""
        return tuple(line for variant in self.variants for line in _attention(variant))


def facts_of(run: Run, transcripts: Transcripts) -> RunFacts:
    """Compute everything about a run."""
    groups = tuple(_group_facts(run, group, transcripts) for group in groups_of(run.blocks))
    mixes = tuple(_mixes(run))
    of_classes = (v.comparison for group in groups for v in group.speculative)
    ladders = ladders_of(run, mixes or [c for c in of_classes if c])
    return RunFacts(
        run=run,
        groups=groups,
        mixes=mixes,
        highest_rates=_highest_rates(run),
        ladders=ladders,
        contexts=contexts_of(ladders),
        goodputs=tuple(_goodputs(run, [*dict.fromkeys(mix.traffic.load for mix in mixes)])),
    )


def _goodputs(run: Run, mixed_loads: Sequence[Load]) -> Iterator[Goodput]:
    """Of the traffic mix at each load, then of each class."""
    weights = run.result.class_weights
    mixes = [Traffic(weights=weights, load=load) for load in mixed_loads]
    for traffic in (*mixes, *(Traffic.of(group) for group in groups_of(run.blocks))):
        for variant in (name for name in run.result.variants if name != CONTROL):
            if found := goodput(run.blocks, traffic, run.result.limits, variant):
                yield found


def _highest_rates(run: Run) -> Mapping[str, PoissonLoad | None]:
    result = run.result
    at_rates = any(isinstance(block.load, PoissonLoad) for block in run.blocks)
    if not (at_rates and result.limits.are_on_latencies):
        return {}
    weights = result.class_weights or dict.fromkeys((b.prompt_class for b in run.blocks), 1.0)
    lengths = dict.fromkeys(block.load.input_tokens for block in run.blocks)
    return {
        variant if length is None else f"{variant} with {length:,} input tokens": highest_rate(
            [b for b in run.blocks if b.load.input_tokens == length],
            weights,
            result.limits,
            variant,
        )
        for variant in result.variants
        for length in lengths
    }


def _mixes(run: Run) -> Iterator[Comparison]:
    """The verdict on the whole traffic, load by load, where it has more than one class."""
    result = run.result
    if len(result.class_weights) < 2:
        return
    baselines = [result.baseline, *(v for v in result.variants if v == AS_SHIPPED)]
    for load in dict.fromkeys(group.load for group in groups_of(run.blocks)):
        for place, baseline in enumerate(baselines):
            for variant in result.variants:
                if variant not in baselines[: place + 1]:
                    traffic = Traffic(weights=result.class_weights, load=load)
                    yield _compare(run, traffic, variant=variant, baseline=baseline)


def _compare(run: Run, traffic: Traffic, *, variant: str, baseline: str) -> Comparison:
    return compare(
        run.blocks,
        traffic,
        variant=variant,
        baseline=baseline,
        limits=run.result.limits,
        price=run.result.price,
    )


def _group_facts(run: Run, group: Group, transcripts: Transcripts) -> GroupFacts:
    result = run.result
    names = [result.baseline, *(v for v in result.variants if v != result.baseline)]
    summaries = [summarize(run.blocks, group, name, result.price) for name in names]
    plain_itl_s = summaries[0].value(INTER_TOKEN_LATENCY)
    return GroupFacts(
        group=group,
        variants=tuple(_variant_facts(run, s, transcripts, plain_itl_s) for s in summaries),
    )


def _variant_facts(
    run: Run, summary: VariantSummary, transcripts: Transcripts, plain_itl_s: float | None
) -> VariantFacts:
    group, name, baseline = summary.group, summary.variant, run.result.baseline
    blocks = group.blocks(run.blocks, name)
    records = tuple(r for b in blocks for r in b.requests)
    acceptance = AcceptanceCheck(
        counted=summary.value(ACCEPTANCE_RATE),
        tokens_per_step=summary.value(TOKENS_PER_STEP),
        most=run.result.max_tokens_per_step.get(name),
        by_requests=metrics.acceptance_by_requests(blocks),
        tokens_per_chunk=metrics.tokens_per_chunk(blocks),
    )
    comparison = shipped = predicted = None
    differing: tuple[Divergence, ...] = ()
    if name != baseline:
        traffic, against = Traffic.of(group), {"variant": name, "baseline": baseline}
        comparison = _compare(run, traffic, **against)
        if AS_SHIPPED in run.result.variants and name != AS_SHIPPED:
            shipped = _compare(run, traffic, variant=name, baseline=AS_SHIPPED)
        pairs = counting(paired(run.blocks, traffic, **against))
        differing = divergences(pairs, transcripts)
        predicted = break_even(records, acceptance, baseline_itl_s=plain_itl_s)
    ratio = comparison.cost_ratio if comparison else None
    return VariantFacts(
        summary=summary,
        records=records,
        comparison=comparison,
        against_shipped=shipped,
        shortfall=shortfall(ratio, target_width=run.result.target_interval_width),
        server=server_check(blocks),
        acceptance=acceptance,
        accepted_at=acceptance_by_position(blocks),
        break_even=predicted,
        quantiles=dict(_quantiles(run.blocks, group, name)),
        step_latencies_s=_step_latencies_s(records, transcripts),
        divergences=differing,
    )


def _quantiles(
    blocks: Sequence[BlockResult], group: Group, variant: str
) -> Iterator[tuple[tuple[Metric, float], Estimate]]:
    requests = samples_of(blocks, group, variant)
    for metric in metrics.shown_latencies():
        samples = [
            replace(place, value=value)
            for place, record in requests
            if record.counts and (value := getattr(record, metric.field)) is not None
        ]
        for share in QUANTILE_SHARES if samples else ():
            yield (metric, share), quantile_estimate(samples, share)


def _step_latencies_s(
    records: Sequence[RequestRecord], transcripts: Transcripts
) -> tuple[float, ...]:
    known = (transcripts[r.request_id] for r in records if r.counts and r.request_id in transcripts)
    return tuple(latency for transcript in known for latency in transcript.step_latencies_s)


def _attention(variant: VariantFacts) -> Iterator[str]:
    server, acceptance = variant.server, variant.acceptance
    if server and not server.agrees:
        yield (
            f"{variant.label}: our mean ITL is {server.ours_s * 1e3:.2f} ms and the server's own "
            f"{server.server_s * 1e3:.2f} ms, {server.difference:+.0%} (tolerance "
            f"{SERVER_TOLERANCE:.0%}): something between them takes or hides time."
        )
    if acceptance.agrees is False:
        yield (
            f"{variant.label}: the server counts {acceptance.counted:.1%} accepted, tokens per "
            f"step explain {acceptance.estimated:.1%} (tolerance {ACCEPTANCE_TOLERANCE:.0%}): "
            "chunks may have been merged on the way, or other requests were served meanwhile."
        )
    if acceptance.requests_agree is False:
        yield (
            f"{variant.label}: the server's counters say {acceptance.counted:.1%} accepted, what it"
            f" tells with each answer {acceptance.by_requests:.1%} (tolerance "
            f"{ACCEPTANCE_TOLERANCE:.0%}): other requests were served meanwhile."
        )
    if acceptance.most != 1 and any(r.usage_source == "last_chunk" for r in variant.records):
        yield (
            f"{variant.label}: the server counts tokens at the end alone, so a first chunk is "
            "taken for one token: one that held more makes the ITL too low (five of 150 by 2.7%)."
        )
    if acceptance.merged:
        yield _merged_chunks(variant.label, acceptance)
    load = variant.summary.group.load
    if (tokens := wrong_input_tokens(variant.records, load)) is not None:
        yield (
            f"{variant.label}: prompts have {tokens:.0f} tokens by the server's usage, and were "
            f"made {load.input_tokens} tokens long by its tokenizer: it adds or drops something."
        )
    share = variant.comparison.identical_share if variant.comparison else None
    if share is not None and share < 1:
        yield (
            f"{variant.label}: {share:.1%} of the outputs are the baseline's. Two equal servers "
            "may differ too, by rounding, and nothing here says how often: look at where they do."
        )
    if variant.summary.failed:
        yield (
            f"{variant.label}: {variant.summary.failed} of {variant.summary.requests} requests "
            "failed; the result files have their reasons, as has requests.csv of a written report."
        )


def _merged_chunks(label: str, acceptance: AcceptanceCheck) -> str:
    chunks, most, steps = acceptance.tokens_per_chunk, acceptance.most, acceptance.tokens_per_step
    if steps == chunks:
        return (
            f"{label}: {chunks:.2f} tokens a step where a step yields at most {most}: chunks were "
            "merged on the way, and step latencies and tokens per step are too large."
        )
    return (
        f"{label}: {chunks:.2f} tokens a chunk where the server says {steps:.2f} a step: chunks "
        "were merged on the way, and step latencies are too large."
    )
