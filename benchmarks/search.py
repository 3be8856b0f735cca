"""How good and how short the search is, counted over searches whose truth is known.

    python -m benchmarks.search [--runs 5] [--processes 2]

A scenario plants a text, a device, an engine's way to count windows, and the error of a measurement
(docs/search.md). The deployed search (`draftworth/searching`) then chooses what to measure until it
ends. Every draw has a seed, so the table is the same each time.
"""

import argparse
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import product, takewhile
from statistics import fmean

from rich.console import Console
from rich.table import Table

from draftworth.records.search import Candidate, Search
from draftworth.searching.policy import ClassTimes, MeasuredCandidate, SearchState
from draftworth.searching.yields import Yield, from_measured
from draftworth.speculation import TOKENS_BEFORE_A_JUMP, steps_of

Steps = Mapping[str, Sequence[int]]  # output tokens of each step, by prompt class

WINDOWS = range(3, 16)
WITHIN = 0.03
PROMPTS, TOKENS = 16, 200
# Size of a second draft / of the first, and the deviation of its step's cost from that size.
SECOND_SIZE, SIZE_DEVIATION = 0.35, 0.2
# Of a measured cost's logarithm, and of a forecast beside what a server then does.
MEASURING_DEVIATION = 0.0125
NUMERICS = 0.003
# Factor on a head's hits with every token that it drafts further ahead.
HEAD_FALL = 0.95
# Deviation of a step's cost from window to window.
UNEVEN = 0.01


@dataclass(frozen=True, kw_only=True)
class Text:
    """How often a draft is right, by prompt class.

    lasting: correlation of hits from token to token (0 to 1).
    """

    name: str
    right: Mapping[str, float]
    lasting: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Device:
    """What a step costs, in baseline steps: 1 + fixed + parts for drafted and checked tokens."""

    name: str
    fixed: float
    per_drafted: float
    per_checked: float
    jump: float = 0.0

    def step_cost(self, candidate: Candidate, draft_size: float) -> float:
        """draft_size: factor on a drafted token's cost."""
        jumps = candidate.checked + 1 > TOKENS_BEFORE_A_JUMP
        return (
            1
            + self.fixed
            + self.per_drafted * draft_size * candidate.window
            + self.per_checked * candidate.checked
            + (self.jump if jumps else 0.0)
        )


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of search.

    share: the part of all candidates that may be measured on average.
    has_forecast: what the drafts yield was estimated before; else a draft model is judged as a head
        is, by what its measured windows yield.
    """

    name: str
    drafts: int
    reads_text: bool
    prior: tuple[float, float]
    share: float
    has_forecast: bool = False


ONE = Kind(name="one draft model", drafts=1, reads_text=True, prior=(0.07, 0.29), share=1 / 3)
TWO = Kind(name="two draft models", drafts=2, reads_text=True, prior=(0.07, 0.29), share=1 / 4)
KINDS = (
    ONE,
    replace(ONE, name="one draft model, with a forecast", has_forecast=True, share=1 / 4),
    TWO,
    replace(TWO, name="two draft models, with a forecast", has_forecast=True, share=1 / 8),
    Kind(name="one head", drafts=1, reads_text=False, prior=(0.0, 0.4), share=1 / 3),
)
TEXTS = tuple(
    Text(
        name=f"{name}, luck {'lasts' if lasting else 'does not last'}", right=right, lasting=lasting
    )
    for (name, right), lasting in product(
        {
            "right often": {"structured": 0.95, "open_ended": 0.85},
            "right in one class": {"structured": 0.95, "open_ended": 0.4},
            "right in the middle": {"structured": 0.8, "open_ended": 0.6},
            "right seldom": {"structured": 0.6, "open_ended": 0.3},
        }.items(),
        (0.0, 0.5),
    )
)
DEVICES = (
    Device(name="dense", fixed=0.1, per_drafted=0.15, per_checked=0.01),
    Device(name="dense, jump", fixed=0.1, per_drafted=0.12, per_checked=0.01, jump=0.4),
    Device(name="expensive start", fixed=0.35, per_drafted=0.15, per_checked=0.01),
    Device(name="cheap draft", fixed=0.05, per_drafted=0.05, per_checked=0.01),
    Device(name="mixture of experts", fixed=0.1, per_drafted=0.1, per_checked=0.3),
)
# Drafts that a step checks, less than the window: upstream vLLM, NxD Inference.
CONVENTIONS = (0, 1)
WEIGHTS = {"structured": 0.6, "open_ended": 0.4}
BASELINE = {n: ClassTimes(weight=w, first_s=0.003, decoding_s=0.045) for n, w in WEIGHTS.items()}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One planted truth."""

    kind: Kind
    text: Text
    device: Device
    unchecked: int

    def text_of(self, draft: str) -> Text:
        """Return how often a draft is right; the second is smaller, and right less often."""
        factor = 1 if draft == "draft0" else 0.9
        return replace(self.text, right={n: r * factor for n, r in self.text.right.items()})

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(
                variant=f"draft{draft}-k{window}",
                draft=f"draft{draft}",
                window=window,
                checked=window - self.unchecked,
                draft_size=1.0 if draft == 0 else SECOND_SIZE,
            )
            for draft in range(self.kind.drafts)
            for window in WINDOWS
        )


SCENARIOS = tuple(
    Scenario(kind=kind, text=text, device=device, unchecked=unchecked)
    for kind, text, device, unchecked in product(KINDS, TEXTS, DEVICES, CONVENTIONS)
)


@dataclass(frozen=True, kw_only=True)
class SearchOutcome:
    """The end of a search. regret: cost of the named window / of the best of all - 1."""

    kind: str
    regret: float
    measured: int
    candidates: int
    sureness: float


def planted_search(scenario: Scenario, seed: int) -> SearchOutcome:
    """Run the deployed search to its end."""
    rng = random.Random(seed)  # noqa: S311 (reproducible draws, no secret)
    second = (0.3 + 0.7 * SECOND_SIZE) * math.exp(rng.gauss(0, SIZE_DEVIATION))
    sizes = {"draft0": 1.0, "draft1": second}
    candidates, kind = scenario.candidates, scenario.kind
    seeds = {c.draft: rng.random() for c in candidates}
    draft_of = DraftModel if kind.reads_text else Head
    drafts = {name: draft_of(scenario.text_of(name), seeds[name]) for name in seeds}
    steps = {c: {n: drafts[c.draft].steps(n, c.checked) for n in WEIGHTS} for c in candidates}
    step_costs = {
        c: scenario.device.step_cost(c, sizes[c.draft]) * (1 + rng.gauss(0, UNEVEN))
        for c in candidates
    }
    # Without an error of measurement.
    truth = {c: _cost(step_costs[c], steps[c]) for c in candidates}
    forecast = {
        c: Yield(tokens={n: draft.predicted(n, c.checked) for n in WEIGHTS})
        for c in candidates
        if kind.has_forecast and isinstance(draft := drafts[c.draft], DraftModel)
    }
    search = Search(
        candidates=candidates,
        drafts_read_text=kind.reads_text,
        step_cost_per_draft=kind.prior,
        within=WITHIN,
    )
    measured: dict[Candidate, MeasuredCandidate] = {}
    state = SearchState(
        search=search, candidates=candidates, baseline=BASELINE, measured={}, yields={}
    )
    while due := state.next:
        measured[due] = _measured(truth[due], rng)
        known = forecast or _yields(candidates, {c: steps[c] for c in measured})
        state = replace(state, measured={**measured}, yields=known)
    return SearchOutcome(
        kind=kind.name,
        regret=(truth[state.best] if state.pays else 1.0) / min(1.0, *truth.values()) - 1,
        measured=len(measured),
        candidates=len(candidates),
        sureness=state.sureness,
    )


def _cost(step_cost: float, steps: Steps) -> float:
    total = sum(t.weight * (t.first_s + t.decoding_s) for t in BASELINE.values())
    own = sum(
        t.weight * (t.first_s * 1.2 + t.decoding_s * step_cost / fmean(steps[name]))
        for name, t in BASELINE.items()
    )
    return own / total


def _measured(truth: float, rng: random.Random) -> MeasuredCandidate:
    """Draw a measurement; its error is known as well as eight blocks show it."""
    degrees = 7
    known = math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(degrees)) / degrees)
    return MeasuredCandidate(
        cost=truth * math.exp(rng.gauss(0, MEASURING_DEVIATION)),
        deviation=MEASURING_DEVIATION * known,
        first=0.003 * 1.2 / 0.048,
    )


def _yields(
    candidates: Sequence[Candidate], measured: Mapping[Candidate, Steps]
) -> dict[Candidate, Yield]:
    longer = {
        c: {n: _longer_than(steps, c.checked) for n, steps in own.items()}
        for c, own in measured.items()
    }
    return {c: told for c in candidates if (told := from_measured(c, longer))}


def _longer_than(steps: Sequence[int], checked: int) -> list[float]:
    return [sum(s > n for s in steps) / len(steps) for n in range(1, checked + 1)]


def _luck(text: Text, right: float, rng: random.Random) -> Iterator[float]:
    """Yield the probability of a hit at each position: a chain of two states, or one."""
    spread = min(right, 1 - right) * (0.8 if text.lasting else 0.0)
    state = rng.choice((-1, 1))
    for _ in range(TOKENS):
        yield right + state * spread
        if rng.random() > 0.5 + text.lasting / 2 * 0.9:
            state = -state


class DraftModel:
    """A draft that is right or wrong at a position, whatever was drafted before."""

    def __init__(self, text: Text, seed: float) -> None:
        rng = random.Random(seed)  # noqa: S311

        def of_prompt(right: float) -> float:
            drawn = right + rng.gauss(0, 0.3 * min(right, 1 - right))
            return min(0.99, max(0.02, drawn))

        self._hits = {
            name: [
                [rng.random() < p for p in _luck(text, of_prompt(right), rng)]
                for _ in range(PROMPTS)
            ]
            for name, right in text.right.items()
        }
        self._served = {
            name: [[hit != (rng.random() < NUMERICS) for hit in own] for own in outputs]
            for name, outputs in self._hits.items()
        }

    def steps(self, prompt_class: str, checked: int) -> list[int]:
        return _steps(self._served[prompt_class], checked)

    def predicted(self, prompt_class: str, checked: int) -> float:
        return fmean(_steps(self._hits[prompt_class], checked))


def _steps(outputs: Sequence[Sequence[bool]], checked: int) -> list[int]:
    return [n for hits in outputs for n in steps_of(hits, checked=checked)]


class Head:
    """A draft whose hits fall with the depth and depend on the position where a step begins."""

    def __init__(self, text: Text, seed: float) -> None:
        rng = random.Random(seed)  # noqa: S311
        self._places = {
            name: [[*_luck(text, right, rng)] for _ in range(PROMPTS)]
            for name, right in text.right.items()
        }
        self._seed = rng.random()
        self._accepted = cache(self._accepted_of_all)

    def steps(self, prompt_class: str, checked: int) -> list[int]:
        found = []
        for number in range(PROMPTS):
            position = 0
            while position < TOKENS:
                found.append(1 + min(checked, self._accepted(prompt_class, number, position)))
                position += found[-1]
        return found

    def _accepted_of_all(self, prompt_class: str, number: int, position: int) -> int:
        """Count the hits of the widest window after a position."""
        rng = random.Random(f"{self._seed}/{prompt_class}/{number}/{position}")  # noqa: S311
        drafted = self._places[prompt_class][number][position + 1 : position + 1 + WINDOWS[-1]]
        hits = (rng.random() < p * HEAD_FALL**depth for depth, p in enumerate(drafted))
        return sum(takewhile(bool, hits))


def outcomes(runs: int, processes: int) -> list[SearchOutcome]:
    """Run every scenario several times."""
    with ProcessPoolExecutor(processes) as pool:
        return [*pool.map(_of_number, range(runs * len(SCENARIOS)), chunksize=16)]


def _of_number(number: int) -> SearchOutcome:
    return planted_search(SCENARIOS[number % len(SCENARIOS)], number)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="searches of each scenario")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    found = outcomes(given.runs, given.processes)
    table = Table(title=f"{len(SCENARIOS)} scenarios, {given.runs} searches of each")
    for heading in (
        *("search", "searches", "within 3% of the best", "worst", "measured", "of", "part"),
        *("part at most", "said to be sure"),
    ):
        table.add_column(heading)
    for kind in KINDS:
        own = [o for o in found if o.kind == kind.name]
        right = fmean(o.regret <= WITHIN for o in own)
        measured, of = fmean(o.measured for o in own), own[0].candidates
        table.add_row(
            *(kind.name, str(len(own)), f"{right:.1%}", f"{max(o.regret for o in own):.1%}"),
            *(f"{measured:.2f}", str(of), f"1/{of / measured:.1f}", f"1/{1 / kind.share:.0f}"),
            f"{fmean(o.sureness for o in own):.1%}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
