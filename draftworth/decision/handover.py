"""Computes the figures for the people who serve the model: the traffic, and what to watch.

What to watch is the tokens per step. The break-even is for decoding: at equal prices, a step that
takes as long as 2.3 baseline steps pays if it yields more than 2.3 tokens. The tokens per step
depend on the traffic, and a live server counts them; the time of a step hardly depends on the
texts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.costs import step_cost_ratio, tokens_per_step_in
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Lengths, groups_of, lengths_of
from draftworth.decision.run_decision import Decision
from draftworth.decision.verdict import Comparison
from draftworth.metrics import steps
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import Load
from draftworth.records.results import BlockResult
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class ClassMeasured:
    """One prompt class of the traffic, as measured on the baseline's requests.

    weight: the class's share (0 to 1) of the traffic's output tokens.
    cases, prompts: number of cases (prompt sets), and of prompts in all of them.
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

    needed: tokens per step at the break-even, which is the cost of the variant's step / the cost of
        a baseline step; None: a step latency is not known.
    measured: tokens per step in the whole traffic; None: not known.
    by_class: measured tokens per step by prompt class; None: not known.
    judgement: the verdict on the whole traffic at this load; None: there is none.
    """

    load: Load
    needed: Estimate | None
    measured: float | None
    by_class: Mapping[str, float | None]
    judgement: Judgement | None

    @property
    def servers_differ(self) -> bool:
        """Whether a step is shown to cost less than a baseline step.

        A step with speculation does at least the work of a baseline step. So if it costs less, the
        servers differ in more than speculation.
        """
        return self.needed is not None and self.needed.high is not None and self.needed.high < 1

    @property
    def margin(self) -> float | None:
        """By which share the measured tokens per step can fall before the variant breaks even.

        It is below 0 if the variant is below break-even already. None: not known, or the servers
        differ in more than speculation.
        """
        if self.needed is None or self.measured is None or self.servers_differ:
            return None
        return 1 - max(1.0, self.needed.value) / self.measured


@dataclass(frozen=True, kw_only=True)
class Handover:
    """The figures for the people who serve the model after a decision.

    classes: the prompt classes of the traffic that the decision is about.
    break_evens: at each load, the tokens per step that the variant needs, and the measured ones.
    has_counters: whether the variant's server counts drafted and accepted tokens.
    most_tokens: prompt + output tokens of the longest request; None: tokens are not counted.
    """

    classes: tuple[ClassMeasured, ...] = ()
    break_evens: tuple[BreakEvenAt, ...] = ()
    has_counters: bool = False
    most_tokens: int | None = None


def handover_of(run: Run, decision: Decision) -> Handover:
    """Return the figures for the people who serve the model, from the run's deciding comparison.

    All figures are empty if no comparison decides.
    """
    if decision.comparison is None:
        return Handover()
    return Handover(
        classes=tuple(_classes(run, decision.comparison.traffic)),
        break_evens=tuple(_break_evens(run, decision.comparison, decision.choices)),
        has_counters=has_counters(run, decision.comparison.variant),
        most_tokens=longest_request_tokens(run.blocks),
    )


def has_counters(run: Run, variant: str) -> bool:
    """Return whether the variant's server counted drafted and accepted tokens."""
    return any(block.speculation for block in run.blocks if block.variant == variant)


def longest_request_tokens(blocks: Iterable[BlockResult]) -> int | None:
    """Return the number of prompt + output tokens of the longest request; None: not counted."""
    totals = (r.number_total_tokens for block in blocks for r in block.requests)
    return max((total for total in totals if total is not None), default=None)


def _classes(run: Run, traffic: Traffic) -> Iterator[ClassMeasured]:
    for name, weight in traffic.weights.items():
        blocks = [
            b for b in run.blocks if (b.prompt_class, b.variant) == (name, run.result.baseline)
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
    run: Run, decision: Comparison, choices: Sequence[Comparison]
) -> Iterator[BreakEvenAt]:
    variant = decision.variant
    blocks = [b for b in run.blocks if b.variant == variant]
    judged = {
        c.traffic.load: c.judgement
        for c in choices
        if c.traffic.name == decision.traffic.name and c.variant == variant
    }
    for load in sorted({group.load for group in groups_of(blocks)}, key=lambda load: load.order):
        traffic = replace(decision.traffic, load=load)
        yield BreakEvenAt(
            load=load,
            needed=step_cost_ratio(run, load, variant),
            measured=tokens_per_step_in(blocks, traffic, variant),
            by_class={
                g.prompt_class: steps.tokens_per_step(g.blocks(blocks, variant))
                for g in traffic.groups
            },
            judgement=judged.get(load),
        )
