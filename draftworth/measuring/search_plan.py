"""Carries out a search: measures one candidate after another, until no further one is worth it.

`searching.next_candidate` decides which candidate is next, from the measured blocks and the tokens
that a step of each candidate is expected to yield. These expected tokens come from a forecast if
there is one, else from passes of the draft models over the baseline's outputs, else from the
measured candidates. The limits of time and money are applied here. A pod that continues a run first
measures the candidates that earlier pods began, in the same order.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from draftworth.analysis.acceptance import acceptance_of
from draftworth.analysis.limits import limit_check, why_not_comparable
from draftworth.analysis.pairing import Traffic
from draftworth.errors import DraftworthError
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.schedule import Plan, Round, Rounds, Stage, candidate_stage
from draftworth.metrics import definitions
from draftworth.records.load_shapes import Load
from draftworth.records.readings import Reading
from draftworth.records.results import BlockResult
from draftworth.records.search_result import Candidate, CostInterval, Search, SearchResult
from draftworth.report.reason_sentences import latency_words, not_comparable_words
from draftworth.searching import next_candidate
from draftworth.searching.measurements import class_times, longer_than, measured_of, step_means
from draftworth.searching.predicted_tokens_per_step import Yield, from_means, from_measured


def why_over(
    spec: RunSpec,
    elapsed_s: float,
    state: next_candidate.SearchState,
    variant: str,
    gain: float | None,
) -> str:
    """Return why a search ends before its next candidate; empty if this candidate is measured.

    The search ends if no time or money is left, or if measuring the candidate costs more than the
    candidate is expected to save.

    elapsed_s: seconds since the run began, including all starts of servers.
    state: the search's limits, and what it has measured so far.
    variant: the next candidate. gain: its expected saving over the best candidate so far, as a
        share of the baseline's cost (`SearchState.gain`); None: it cannot be predicted yet.
    """
    hours, limit = elapsed_s / definitions.SECONDS_PER_HOUR, state.search
    if limit.hours is not None and hours >= limit.hours:
        return f"it has lasted {hours:.2f} hours; search.stop.last_start_hours is {limit.hours:g}"
    usd_per_second = definitions.nodes_usd_per_second(spec.price) or 0.0
    spent_usd = elapsed_s * usd_per_second
    if limit.usd is not None and spent_usd >= limit.usd:
        return f"it has cost {spent_usd:.2f} USD; search.stop.last_start_usd is {limit.usd:g}"
    traffic_usd = _traffic_usd(spec, state)
    if gain is None or traffic_usd is None or not state.measured:
        return ""
    minutes = elapsed_s / len(state.measured) / 60
    costs_usd = minutes * 60 * usd_per_second
    saves_usd = gain * traffic_usd
    if saves_usd >= costs_usd:
        return ""
    return (
        f"measuring {variant} would cost {costs_usd:.2f} USD ({minutes:.0f} "
        f"minutes, as each so far) and can be expected to save {saves_usd:.2f} USD: "
        f"{gain:.2%} of {traffic_usd:,.0f} USD, which {limit.days:g} days of "
        f"{limit.tokens_per_day:,.0f} output tokens cost without a draft"
    )


def _traffic_usd(spec: RunSpec, state: next_candidate.SearchState) -> float | None:
    in_flight, a_day = spec.loads[0].in_flight, state.search.tokens_per_day
    if a_day is None or in_flight is None:
        return None
    throughput = in_flight / state.baseline_s
    million = definitions.usd_per_million_tokens(spec.price, spec.baseline, throughput)
    return None if million is None else million * a_day * state.search.days / 1e6


# A function that gets the measured blocks, and returns how well each draft model predicts the
# baseline's outputs in them, by `Candidate.draft`. A search calls it after each candidate until the
# result is not empty.
ReadOutputs = Callable[[Sequence[BlockResult]], Mapping[str, Sequence[Reading]]]

# After this many failed candidates in a row, the search ends: each failure may last as long as the
# wait for a server, while the nodes are paid for.
MAX_FAILURES_IN_A_ROW = 2
SURE = "no other candidate is likely to be cheaper by more than {within:.0%}"
ALL_MEASURED = "every candidate that could be is measured"


@dataclass(kw_only=True)
class SearchRounds(Plan):
    """The rounds of a search.

    blocks: all blocks measured so far; the list grows with every round.
    elapsed_seconds: returns the seconds since the run began, including all starts of servers.
    begun: the variants that earlier pods measured or began to measure, in the order of measuring.
    order: the measured candidates, in the order of measuring.
    failed: why a candidate could not be measured, by variant.
    ended: why no further candidate is measured; empty while the search goes on.
    """

    spec: RunSpec
    search: Search
    blocks: Sequence[BlockResult]
    progress: Callable[[str], None]
    read_outputs: ReadOutputs
    elapsed_seconds: Callable[[], float]
    begun: Sequence[str] = ()
    order: list[Candidate] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    _numbers: Counter[Load] = field(default_factory=Counter)
    _failed_in_a_row: int = 0
    _expected: dict[Candidate, CostInterval] = field(default_factory=dict)
    _readings: Mapping[str, Sequence[Reading]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Round]:
        while due := self._due():
            for turn in self._rounds(due):
                yield turn
                if due.variant in self.failed:
                    break
            else:
                self._readings = self._readings or self.read_outputs(self.blocks)
                if reason := self._why_no_figure(due):
                    self._leave_out(due.variant, reason)
                else:
                    self.order.append(due)
                    self._failed_in_a_row = 0
        if not self.order:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.failed.items())
            raise DraftworthError(f"no candidate could be measured: {reasons}")

    def has_answer(self, _stage: Stage) -> bool:
        return bool(self.order)

    def leave_out(self, stage: Stage, reason: str) -> bool:
        """Leave out a stage's candidate, which failed; return whether the search goes on.

        It does not go on after `MAX_FAILURES_IN_A_ROW` failures, whose cause is then probably not
        in the candidates.
        """
        self._leave_out(stage.candidate, reason)
        self._failed_in_a_row += 1
        return self._failed_in_a_row < MAX_FAILURES_IN_A_ROW

    def left_out(self) -> Mapping[str, str]:
        return self.failed

    def search_result(self, run_id: str) -> SearchResult:
        state = self.state()
        has_measured = bool(state.measured)
        return SearchResult(
            run_id=run_id,
            search=self.search,
            load=self._traffic.load.label,
            results=tuple(
                replace(forecast, predicted=self._expected.get(candidate))
                for candidate, forecast in state.forecasts.items()
            ),
            order=tuple(candidate.variant for candidate in self.order),
            best=state.best.variant if has_measured else "",
            expected_to_pay=has_measured and state.pays,
            sureness=state.sureness if has_measured else 0.0,
            ended=self.ended,
            failed=self.failed,
        )

    def state(self) -> next_candidate.SearchState:
        measured = {c: figures for c in self.order if (figures := self._measured(c))}
        baseline = self._class_times()
        return next_candidate.SearchState(
            search=self.search,
            candidates=self._open,
            baseline=baseline,
            measured=measured,
            yields=self._yields(measured, baseline),
        )

    @property
    def _open(self) -> list[Candidate]:
        return [c for c in self.search.candidates if c.variant not in self.failed]

    @property
    def _traffic(self) -> Traffic:
        return Traffic(weights=self.spec.class_weights, load=self.spec.loads[0])

    def _leave_out(self, variant: str, reason: str) -> None:
        self.failed[variant] = reason
        self.progress(f"candidate {variant} is left out: {reason}")

    def _why_no_figure(self, candidate: Candidate) -> str:
        variant, limits = candidate.variant, self.spec.limits
        if doubt := why_not_comparable(self.blocks, self._traffic, limits, [variant]):
            return not_comparable_words(doubt)
        limits_kept = limit_check(self.blocks, self._traffic, limits, variant)
        if limits_kept.latency and limits_kept.kept is False:
            return latency_words(limits_kept.latency)
        figures = self._measured(candidate)
        if figures is None:
            return "nothing compares it with the baseline"
        if candidate not in self._yields({candidate: figures}, self._class_times()):
            return "neither its counters nor its chunks show tokens per step in every class"
        return ""

    def _class_times(self) -> dict[str, next_candidate.ClassTimes]:
        return class_times(self.blocks, self._traffic, self.spec.baseline)

    def _measured(self, candidate: Candidate) -> next_candidate.MeasuredCandidate | None:
        return measured_of(
            self.blocks, self._traffic, variant=candidate.variant, baseline=self.spec.baseline
        )

    def _due(self) -> Candidate | None:
        """Return the candidate to measure next; None if the search is over (`ended` says why)."""
        state = self.state()
        due = self._next(state)
        if due is None:
            is_sure = len(state.measured) < len(state.candidates)
            self.ended = SURE.format(within=self.search.within) if is_sure else ALL_MEASURED
        elif state.measured:
            gain = state.gain(due) if due in state.forecasts else None
            elapsed_s = self.elapsed_seconds()
            self.ended = why_over(self.spec, elapsed_s, state, due.variant, gain)
        if self.ended:
            self.progress(f"the search ends: {self.ended}")
            return None
        if due and due in state.forecasts:
            self._expected[due] = expected = state.forecasts[due].cost
            self.progress(
                f"next: {due.variant}, whose token is expected to cost {expected.value:.3f} "
                f"({expected.low:.3f} to {expected.high:.3f}) of the baseline's"
            )
        return due

    def _next(self, state: next_candidate.SearchState) -> Candidate | None:
        due = {c.variant: c for c in self._open if c not in self.order}
        for variant in self.begun:
            if variant in due:
                return due[variant]
        return state.next

    def _rounds(self, candidate: Candidate) -> Iterator[Round]:
        yield from Rounds(
            spec=self.spec.beside_baseline(candidate.variant),
            progress=self.progress,
            blocks=self.blocks,
            stages=[candidate_stage(self.spec, candidate.variant)],
            numbers=self._numbers,
        )

    def _yields(
        self,
        measured: Mapping[Candidate, next_candidate.MeasuredCandidate],
        classes: Mapping[str, next_candidate.ClassTimes],
    ) -> dict[Candidate, Yield]:
        if not measured:
            return {}
        of_all = (self.blocks, self._traffic)
        counted = {c: longer_than(*of_all, variant=c.variant, checked=c.checked) for c in measured}
        by_counters = {
            c: shares for c, shares in counted.items() if shares.keys() >= classes.keys()
        }
        steps = {
            c: step_means(*of_all, variant=c.variant) for c in measured if c not in by_counters
        }
        means = {c: mean for c, mean in steps.items() if mean.keys() >= classes.keys()}
        predictions = (
            (c, self._by_text(c) or from_measured(c, by_counters) or from_means(c, means))
            for c in self._open
        )
        return {c: y for c, y in predictions if y and y.tokens.keys() >= classes.keys()}

    def _by_text(self, candidate: Candidate) -> Yield | None:
        if tokens := self.search.forecast.get(candidate.variant):
            return Yield(tokens=tokens)
        readings = self._readings.get(candidate.draft)
        if not readings:
            return None
        by_class = acceptance_of(readings, [candidate.checked])
        return Yield(
            tokens={
                name: acceptance.tokens_per_step.value for name, (acceptance,) in by_class.items()
            }
        )
