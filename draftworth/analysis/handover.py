"""The handover to the people who serve the model: the decision, its traffic, what to watch.

The break-even is for decoding: a step that takes as long as 2.3 baseline steps pays if it yields
more than 2.3 tokens. The tokens per step depend on the traffic, and a live server counts them; the
time of a step hardly depends on the texts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.answer import (
    best_of,
    choices_of,
    drafts_are_accepted,
    missing_requests,
    tokens_per_step,
)
from draftworth.analysis.costs import step_cost_ratio
from draftworth.analysis.facts import RunFacts, VariantFacts
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Lengths, groups_of, lengths_of
from draftworth.analysis.verdict import Comparison
from draftworth.metrics import steps
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import Load
from draftworth.records.reading import Run
from draftworth.records.results import BlockResult


@dataclass(frozen=True, kw_only=True)
class ClassMeasured:
    """One prompt class of the traffic, as measured on the baseline's requests.

    weight: the class's share of the traffic's output tokens. cases, prompts: number of each.
    input_tokens, output_tokens: lengths of prompts and outputs; None: the server counts no tokens.
    """

    name: str
    weight: float
    cases: int
    prompts: int
    input_tokens: Lengths | None
    output_tokens: Lengths | None


@dataclass(frozen=True, kw_only=True)
class BreakEvenAt:
    """The tokens per step that a variant needs to break even at a load, and the measured ones.

    needed: equal to the cost of a step in baseline steps; None: a step latency is not known.
    measured: tokens per step of the whole traffic; None: not known.
    by_class: measured tokens per step by class. judgement: the verdict; None: there is none.
    """

    load: Load
    needed: Estimate | None
    measured: float | None
    by_class: Mapping[str, float | None]
    judgement: Judgement | None


@dataclass(frozen=True, kw_only=True)
class Handover:
    """The decision with its figures, or what is missing before a decision is possible.

    decision: the comparison that decides; None: there is none. missing: what a decision lacks.
    next_step: what to do to get a winner; empty with a winner, and for a search.
    by_class: comparisons of the decision's variant at the decision's load, in each class.
    has_counters: the variant's server counts drafted and accepted tokens.
    drafts_are_accepted: its steps yield more than one token, or are not known.
    most_tokens: prompt and output tokens of the longest request; None: not counted.
    """

    decision: Comparison | None
    missing: tuple[str, ...]
    next_step: str
    by_class: tuple[Comparison, ...] = ()
    classes: tuple[ClassMeasured, ...] = ()
    break_evens: tuple[BreakEvenAt, ...] = ()
    has_counters: bool = False
    drafts_are_accepted: bool = True
    most_tokens: int | None = None

    @property
    def pays(self) -> bool:
        return self._judgement is not None and self._judgement.serves_variant

    @property
    def has_winner(self) -> bool:
        return self._judgement is not None and self._judgement.is_decided

    @property
    def _judgement(self) -> Judgement | None:
        return None if self.missing or self.decision is None else self.decision.judgement


def handover_of(facts: RunFacts) -> Handover:
    """Return the handover of a run; for a search, of its best candidate."""
    asked = choices_of(facts)
    result = facts.run.result
    step = "" if facts.run.search else next_step(facts, asked)
    missing = []
    if result.status != "complete":
        missing.append(f"a run that is complete: this one failed ({result.reason})")
    if not asked:
        beside = "a candidate of the search" if facts.run.search else "a speculative variant"
        return Handover(
            decision=None,
            missing=(*missing, f"{beside}, measured beside the baseline"),
            next_step=step,
        )
    decision = best_of(asked)
    return Handover(
        decision=decision,
        missing=(*missing, *_undecided(facts, decision)),
        next_step=step,
        by_class=tuple(c for _, c in _of_classes(facts, decision)),
        classes=tuple(_classes(facts, decision.traffic)),
        break_evens=tuple(_break_evens(facts, decision, asked)),
        has_counters=has_counters(facts.run, decision.variant),
        drafts_are_accepted=drafts_are_accepted(facts, decision),
        most_tokens=longest_request_tokens(facts.run.blocks),
    )


def next_step(facts: RunFacts, asked: Sequence[Comparison]) -> str:
    """Say what to do about a run that has no winner; empty if it has one.

    asked: the comparisons that the headline chooses from.
    """
    if facts.run.result.status != "complete":
        return "measure again"
    if not asked:
        return "measure a speculative variant beside a baseline"
    if best_of(asked).judgement.is_decided:
        return ""
    return (
        "measure more (workload.max_requests, repetitions), at a load that is kept full "
        "(workload.concurrency), or leave out the variant that is undecided"
    )


def has_counters(run: Run, variant: str) -> bool:
    """Return whether the variant's server counted drafted and accepted tokens."""
    return any(block.speculation for block in run.blocks if block.variant == variant)


def longest_request_tokens(blocks: Iterable[BlockResult]) -> int | None:
    """Return the tokens of the longest request, prompt + output; None if none are counted."""
    totals = (r.number_total_tokens for block in blocks for r in block.requests)
    return max((total for total in totals if total is not None), default=None)


def _undecided(facts: RunFacts, decision: Comparison) -> Iterator[str]:
    if decision.judgement == Judgement.WITHIN_LIMITS:
        yield "a cost: arrivals at a rate have none per token, and keeping the limits saves nothing"
    if decision.judgement == Judgement.INCONCLUSIVE:
        yield "a verdict"
        for variant, comparison in _of_classes(facts, decision):
            if words := missing_requests(facts, variant).strip(" ."):
                yield f"{comparison.traffic.label}: {words[0].lower()}{words[1:]}"


def _of_classes(facts: RunFacts, decision: Comparison) -> Iterator[tuple[VariantFacts, Comparison]]:
    for found in facts.speculative:
        of_traffic = found.summary.group in decision.traffic.groups
        if found.comparison and found.name == decision.variant and of_traffic:
            yield found, found.comparison


def _classes(facts: RunFacts, traffic: Traffic) -> Iterator[ClassMeasured]:
    for name, weight in traffic.weights.items():
        blocks = [
            b
            for b in facts.run.blocks
            if (b.prompt_class, b.variant) == (name, facts.run.result.baseline)
        ]
        done = [r for b in blocks for r in b.requests if not r.failed]
        yield ClassMeasured(
            name=name,
            weight=weight,
            cases=len({b.case for b in blocks}),
            prompts=len({(b.case, r.prompt_id) for b in blocks for r in b.requests}),
            input_tokens=lengths_of(r.number_input_tokens for r in done),
            output_tokens=lengths_of(r.number_output_tokens for r in done),
        )


def _break_evens(
    facts: RunFacts, decision: Comparison, asked: list[Comparison]
) -> Iterator[BreakEvenAt]:
    run, variant = facts.run, decision.variant
    own = [b for b in run.blocks if b.variant == variant]
    judged = {
        c.traffic.load: c.judgement
        for c in asked
        if c.traffic.name == decision.traffic.name and c.variant == variant
    }
    for load in sorted({group.load for group in groups_of(own)}, key=lambda load: load.order):
        traffic = replace(decision.traffic, load=load)
        yield BreakEvenAt(
            load=load,
            needed=step_cost_ratio(run, load, variant),
            measured=tokens_per_step(own, traffic, variant),
            by_class={
                g.prompt_class: steps.tokens_per_step(g.blocks(own, variant))
                for g in traffic.groups
            },
            judgement=judged.get(load),
        )
