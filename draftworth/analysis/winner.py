"""The winner of a run: which way of decoding to keep, at which loads it pays, what to watch.

It is what the headline of the report answers, and nothing else decides: a variant that is judged
`cheaper per token` in the traffic that the headline speaks of, at one load at least. Where every
comparison is decided and none is cheaper, the baseline has won. While one is undecided that could
be cheaper, nobody has won: a winner by default would be believed like a measured one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.answer import asked_of, best_of, headline
from draftworth.analysis.costs import step_cost_ratio
from draftworth.analysis.facts import RunFacts
from draftworth.analysis.handover import (
    CHEAPER,
    DECIDED_AGAINST,
    MEASURE_AGAIN,
    MEASURE_BOTH,
    MEASURE_MORE,
    tokens_per_step,
)
from draftworth.analysis.ladder import weighted
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.verdict import Comparison
from draftworth.errors import DraftworthError
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, TTFT
from draftworth.records.findings import Judgement
from draftworth.records.load import Load
from draftworth.records.reading import Run
from draftworth.records.results import AS_SHIPPED
from draftworth.untrusted import one_line


class NoWinnerError(DraftworthError):
    """The run names none."""


@dataclass(frozen=True, kw_only=True)
class WinnerFigures:
    """The winner in one traffic, a prompt class or the traffic mix, at one load.

    judgement, cost_ratio, itl_speedup: of the winner against the baseline; None of the baseline.
    itl_s, ttft_s: each class's median, weighted like its output tokens, as the report's ladder is.
    tokens_per_step: measured. break_even_tokens_per_step: with so many a step takes as long as the
        baseline takes for as many tokens: the step's cost in baseline steps, over all classes at
        this load; None for the baseline, and where nothing shows its steps.
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
        """`structured at c4`."""
        return f"{self.traffic} at {self.load.label}"


@dataclass(frozen=True, kw_only=True)
class Winner:
    """Which variant to keep, or the baseline where none pays, and on what that rests.

    traffic: what the headline speaks of: the traffic mix, or the only class.
    figures: of every traffic and load, that traffic's first.
    judged: what the headline chose from.
    cheaper_up_to: by length of prompts (None: as they are), the highest concurrency up to which the
        winner is shown to be cheaper at each one measured; empty for the baseline.
    longest_context_tokens: input and output of the longest request that counts; None: not counted.
    has_counters: its server tells how many drafted tokens were accepted.
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
        """Whether it is not the baseline."""
        return self.variant != self.baseline

    @property
    def decisive(self) -> tuple[WinnerFigures, ...]:
        """Those of the traffic that the headline speaks of, load by load."""
        return tuple(f for f in self.figures if f.traffic == self.traffic)

    @property
    def cheaper_at(self) -> tuple[Load, ...]:
        """Loads at which it is shown to be cheaper in that traffic."""
        return tuple(f.load for f in self.decisive if f.judgement == CHEAPER)


def winner_of(facts: RunFacts) -> Winner:
    """The winner of a run.

    Raises:
        NoWinnerError: it did not end well, compared nothing, or has not decided it.
    """
    result, asked = facts.run.result, asked_of(facts)
    if result.status != "complete":
        raise _no_winner(facts, f"it failed: {one_line(result.reason)}", MEASURE_AGAIN)
    if not asked:
        raise _no_winner(facts, headline(facts), MEASURE_BOTH)
    best = best_of(asked)
    if best.judgement == CHEAPER:
        return _winner(facts, asked, best.variant, best.traffic)
    if best.judgement in DECIDED_AGAINST:
        return _winner(facts, asked, result.baseline, best.traffic)
    raise _no_winner(facts, headline(facts), MEASURE_MORE)


def _no_winner(facts: RunFacts, why: str, next_step: str) -> NoWinnerError:
    shown = one_line(facts.run.result.run_id)
    return NoWinnerError(f"run {shown} has no winner: {why.rstrip('.')}; next: {next_step}")


def _winner(facts: RunFacts, asked: Sequence[Comparison], variant: str, best: Traffic) -> Winner:
    run = facts.run
    compared = _comparisons(facts)
    # The traffic that the headline speaks of first; a traffic at a load has one comparison or more.
    traffics = dict.fromkeys((c.traffic.name, c.traffic.load) for c in compared)
    own_first = sorted(traffics, key=lambda place: place[0] != best.name)
    figures = (
        _figures(run, variant, [c for c in compared if (c.traffic.name, c.traffic.load) == place])
        for place in own_first
    )
    reached = {
        ladder.input_tokens: rung.concurrency
        for ladder in facts.ladders
        if ladder.traffic == best.name and (rung := ladder.cheaper_up_to(variant))
    }
    return Winner(
        variant=variant,
        baseline=run.result.baseline,
        headline=headline(facts),
        traffic=best.name,
        figures=tuple(figures),
        judged=tuple(asked),
        cheaper_up_to=reached,
        longest_context_tokens=max(_context_tokens(run, variant), default=None),
        has_counters=any(b.speculation for b in run.blocks if b.variant == variant),
    )


def _comparisons(facts: RunFacts) -> list[Comparison]:
    """Of every variant that may be chosen with the baseline: the mix's, then the classes'."""
    of_classes = (c for v in facts.speculative if (c := v.comparison))
    return [c for c in (*facts.mixes, *of_classes) if AS_SHIPPED not in (c.variant, c.baseline)]


def _figures(run: Run, variant: str, compared: Sequence[Comparison]) -> WinnerFigures:
    """compared: the variants of one traffic at one load."""
    traffic = compared[0].traffic
    own = next((c for c in compared if c.variant == variant), None)
    itl_s, ttft_s = (weighted(run, traffic, variant, m) for m in (INTER_TOKEN_LATENCY, TTFT))
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


def _context_tokens(run: Run, variant: str) -> Iterator[int]:
    for block in run.blocks:
        for record in block.requests if block.variant == variant else ():
            if record.counts and record.number_total_tokens is not None:
                yield record.number_total_tokens
