"""Finds the winner of a run: which variant to keep, at which loads it pays, what to watch.

The headline of the report decides: the winner is the variant that it judges `cheaper per token`.
If every comparison is decided and no variant is cheaper, the baseline is the winner. If a variant
that could be cheaper is undecided, there is no winner: a default would look like a measured result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis import handover
from draftworth.analysis.answer import best_of, choices_of, headline, tokens_per_step
from draftworth.analysis.costs import step_cost_ratio
from draftworth.analysis.facts import RunFacts
from draftworth.analysis.pairing import weighted
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.verdict import Comparison
from draftworth.errors import DraftworthError
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, TTFT
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import Load
from draftworth.records.reading import Run
from draftworth.records.results import AS_SHIPPED
from draftworth.untrusted import one_line


class NoWinnerError(DraftworthError):
    """The run has no winner."""


@dataclass(frozen=True, kw_only=True)
class WinnerFigures:
    """The winner's figures in one traffic (a prompt class or the traffic mix) at one load.

    judgement, cost_ratio, itl_speedup: winner against baseline; None if the winner is the baseline.
    itl_s, ttft_s: the mean of the classes' medians, weighted by their output tokens.
    break_even_tokens_per_step: the cost of a step in baseline steps, over all classes at this load;
        None if the winner is the baseline, or if its steps cannot be counted.
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


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The variant to keep, or the baseline where no variant pays, with the measured figures.

    traffic: what the headline is about: the traffic mix, or the name of a class.
    figures: the figures for each traffic and load; those of the headline's traffic are first.
    judged: the comparisons that the headline chose from.
    cheaper_up_to: by prompt length (None: prompts keep their own), the highest concurrency up to
        which the winner is cheaper at all measured ones; empty if the winner is the baseline.
    longest_context_tokens: input + output of the winner's longest request; None if not counted.
    has_counters: the winner's server counted drafted and accepted tokens.
    """

    variant: str
    baseline: str
    headline: str
    traffic: str
    figures: tuple[WinnerFigures, ...]
    judged: tuple[Comparison, ...]
    cheaper_up_to: Mapping[int | None, int]
    longest_context_tokens: int | None
    has_counters: bool

    @property
    def speculates(self) -> bool:
        return self.variant != self.baseline

    @property
    def decisive(self) -> tuple[WinnerFigures, ...]:
        return tuple(f for f in self.figures if f.traffic == self.traffic)

    @property
    def cheaper_at(self) -> tuple[Load, ...]:
        return tuple(f.load for f in self.decisive if f.judgement == Judgement.CHEAPER)


def winner_of(facts: RunFacts) -> Winner:
    """Return the winner of a run; raise NoWinnerError if the run failed or decided nothing."""
    result, asked = facts.run.result, choices_of(facts)
    if step := handover.next_step(facts, asked):
        failed = result.status != "complete"
        why = f"it failed: {one_line(result.reason)}" if failed else headline(facts)
        shown = one_line(result.run_id)
        raise NoWinnerError(f"run {shown} has no winner: {why.rstrip('.')}; next: {step}")
    best = best_of(asked)
    variant = best.variant if best.judgement == Judgement.CHEAPER else result.baseline
    traffic, run = best.traffic.name, facts.run
    compared = [c for c in facts.comparisons if AS_SHIPPED not in (c.variant, c.baseline)]
    # The headline's traffic is first. Each traffic at each load has one comparison or more.
    traffics = dict.fromkeys((c.traffic.name, c.traffic.load) for c in compared)
    own_first = sorted(traffics, key=lambda place: place[0] != traffic)
    figures = (
        _figures(run, variant, [c for c in compared if (c.traffic.name, c.traffic.load) == place])
        for place in own_first
    )
    reached = {
        ladder.input_tokens: rung.concurrency
        for ladder in facts.ladders
        if ladder.traffic == traffic and (rung := ladder.cheaper_up_to(variant))
    }
    return Winner(
        variant=variant,
        baseline=result.baseline,
        headline=headline(facts),
        traffic=traffic,
        figures=tuple(figures),
        judged=tuple(asked),
        cheaper_up_to=reached,
        longest_context_tokens=handover.longest_request_tokens(
            block for block in run.blocks if block.variant == variant
        ),
        has_counters=handover.has_counters(run, variant),
    )


def _figures(run: Run, variant: str, compared: Sequence[Comparison]) -> WinnerFigures:
    traffic = compared[0].traffic
    own = next((c for c in compared if c.variant == variant), None)
    itl_s, ttft_s = (weighted(run.blocks, traffic, variant, m) for m in (INTER_TOKEN_LATENCY, TTFT))
    return WinnerFigures(
        traffic=traffic.name,
        load=traffic.load,
        judgement=own.judgement if own else None,
        cost_ratio=own.cost_ratio if own else None,
        itl_speedup=own.itl_speedup if own else None,
        itl_s=itl_s,
        ttft_s=ttft_s,
        tokens_per_step=tokens_per_step(run.blocks, traffic, variant),
        break_even_tokens_per_step=step_cost_ratio(run, traffic.load, variant) if own else None,
    )
