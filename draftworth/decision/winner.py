"""Returns the winner of a run: the variant or baseline to keep, with its figures at each load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.costs import step_cost_ratio, tokens_per_step_in
from draftworth.analysis.pairing import weighted
from draftworth.analysis.statistics import Estimate
from draftworth.decision.facts import RunFacts
from draftworth.decision.handover import has_counters, longest_request_tokens
from draftworth.decision.verdict import Comparison
from draftworth.errors import DraftworthError
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, TTFT
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import Load
from draftworth.records.results import AS_SHIPPED
from draftworth.records.run_folder import Run


class NoWinnerError(DraftworthError):
    """Raised where a winner is asked for, and the run has no decision on what to serve."""


@dataclass(frozen=True, kw_only=True)
class WinnerFigures:
    """The winner's figures in one traffic (a prompt class or the traffic mix) at one load.

    judgement, cost_ratio, itl_speedup: of the winner against the baseline; None if the winner is
        the baseline.
    itl_s, ttft_s: in seconds, the mean of the classes' medians, weighted by their output tokens.
    tokens_per_step: mean tokens per step; None: not known.
    break_even_tokens_per_step: the tokens per step at which the winner's decoding costs as much as
        the baseline's, over all classes at this load; None if the winner is the baseline, or if
        steps cannot be counted.
    """

    traffic: str
    load: Load
    judgement: Judgement | None
    cost_ratio: Estimate | None
    itl_speedup: Estimate | None
    itl_s: float | None
    ttft_s: float | None
    tokens_per_step: float | None
    break_even_tokens_per_step: Estimate | None

    @property
    def label(self) -> str:
        return f"{self.traffic} at {self.load.label}"

    @property
    def pays(self) -> bool:
        return self.judgement is not None and self.judgement.serves_variant


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The variant to keep, or the baseline if no variant pays, with the measured figures.

    variant: the name of the winner, which may be the baseline. baseline: the baseline's name.
    classes: the prompt classes that the variant serves, if the baseline serves the others; else
        empty.
    traffic: what the decision is about: the traffic mix, or the name of a class.
    figures: the winner's figures for each traffic and load; those of the decision's traffic are
        first.
    judged: the comparisons that the decision chose from.
    cheaper_up_to: by prompt length (None: prompts keep their own lengths), the highest concurrency
        such that the winner is cheaper at this and every lower measured concurrency; empty if the
        winner is the baseline.
    takes_up_to: if requests arrive at rates, for each prompt length, the load with the highest
        measured rate at which the winner keeps the latency limits; else empty.
    longest_context_tokens: input + output tokens of the winner's longest request; None: not
        counted.
    has_counters: whether the winner's server counted drafted and accepted tokens.
    """

    variant: str
    baseline: str
    classes: tuple[str, ...]
    traffic: str
    figures: tuple[WinnerFigures, ...]
    judged: tuple[Comparison, ...]
    cheaper_up_to: Mapping[int | None, int]
    takes_up_to: tuple[Load, ...]
    longest_context_tokens: int | None
    has_counters: bool

    @property
    def speculates(self) -> bool:
        return self.variant != self.baseline

    @property
    def decisive(self) -> tuple[WinnerFigures, ...]:
        """The figures of the decision's traffic at each load.

        If the winner serves only some classes, they are the figures of each of these classes.
        """
        return tuple(f for f in self.figures if f.traffic in (self.classes or (self.traffic,)))

    @property
    def cheaper_at(self) -> tuple[Load, ...]:
        return tuple(dict.fromkeys(f.load for f in self.decisive if f.pays))


def winner_of(facts: RunFacts) -> Winner | None:
    """Return the server to keep after a run, with its figures; None: the run has no decision."""
    decision, run = facts.decision, facts.run
    variant, best = decision.winner, decision.comparison
    if variant is None or best is None:
        return None
    traffic = best.traffic.name
    compared = [c for c in facts.comparisons if AS_SHIPPED not in (c.variant, c.baseline)]
    traffics = dict.fromkeys((c.traffic.name, c.traffic.load) for c in compared)
    decided_first = sorted(traffics, key=lambda place: place[0] != traffic)
    figures = (
        _figures(run, variant, [c for c in compared if (c.traffic.name, c.traffic.load) == place])
        for place in decided_first
    )
    reached = {
        ladder.input_tokens: rung.concurrency
        for ladder in facts.ladders
        if ladder.traffic == traffic and (rung := ladder.cheaper_up_to(variant))
    }
    return Winner(
        variant=variant,
        baseline=decision.baseline,
        classes=decision.by_class.classes if decision.serves_by_class and decision.by_class else (),
        traffic=traffic,
        figures=tuple(figures),
        judged=decision.choices,
        cheaper_up_to=reached,
        takes_up_to=tuple(
            bounds.kept
            for bounds in facts.highest_rates
            if decision.rates and bounds.variant == variant and bounds.kept
        ),
        longest_context_tokens=longest_request_tokens(
            block for block in run.blocks if block.variant == variant
        ),
        has_counters=has_counters(run, variant),
    )


def _figures(run: Run, variant: str, compared: Sequence[Comparison]) -> WinnerFigures:
    traffic = compared[0].traffic
    comparison = next((c for c in compared if c.variant == variant), None)
    itl_s, ttft_s = (weighted(run.blocks, traffic, variant, m) for m in (INTER_TOKEN_LATENCY, TTFT))
    return WinnerFigures(
        traffic=traffic.name,
        load=traffic.load,
        judgement=comparison.judgement if comparison else None,
        cost_ratio=comparison.cost_ratio if comparison else None,
        itl_speedup=comparison.itl_speedup if comparison else None,
        itl_s=itl_s,
        ttft_s=ttft_s,
        tokens_per_step=tokens_per_step_in(run.blocks, traffic, variant),
        break_even_tokens_per_step=step_cost_ratio(run, traffic.load, variant)
        if comparison
        else None,
    )
