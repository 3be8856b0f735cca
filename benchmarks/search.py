"""Counts how often the search names a good window, and how much it measures, with a known truth.

    python -m benchmarks.search [--runs 5] [--processes 2]

A scenario has a known text, device, convention for windows and measurement error (docs/search.md).
The deployed search (`draftworth/searching`) chooses what to measure until it ends. All draws are
seeded, so the table is the same each time.
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
# The second draft's size divided by the first's; the deviation of its cost factor's logarithm.
SECOND_SIZE, SIZE_DEVIATION = 0.35, 0.2
# Standard deviation of a measured cost's logarithm; share of tokens that a forecast gets wrong.
MEASURING_DEVIATION = 0.0125
NUMERICS = 0.003
# A head's probability of a right token is multiplied by this per earlier token of the step.
HEAD_FALL = 0.95
# Standard deviation of a step's cost between windows.
UNEVEN = 0.01


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text; a draft predicts the share `right` of its tokens, by prompt class.

    lasting: from 0 (right tokens are independent) to 1 (right tokens come in long runs).
    """

    name: str
    right: Mapping[str, float]
    lasting: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device's step cost in baseline steps: 1 + fixed + costs per drafted and checked token."""

    name: str
    fixed: float
    per_drafted: float
    per_checked: float
    jump: float = 0.0

    def step_cost(self, candidate: Candidate, draft_size: float) -> float:
        """Return the cost of a step. draft_size: factor on the cost of a drafted token."""
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

    share: the share of all candidates that may be measured, on average.
    has_forecast: whether there are estimates of accepted tokens before the search. Without them a
        draft model is judged as a head is, by the tokens per step of its measured windows.
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
# How many drafted tokens of a step are not checked: 0 in upstream vLLM, 1 in NxD Inference.
CONVENTIONS = (0, 1)
WEIGHTS = {"structured": 0.6, "open_ended": 0.4}
BASELINE = {n: ClassTimes(weight=w, first_s=0.003, decoding_s=0.045) for n, w in WEIGHTS.items()}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A known truth; `unchecked` is one of CONVENTIONS."""

    kind: Kind
    text: Text
    device: Device
    unchecked: int

    def text_of(self, draft: str) -> Text:
        """Return the text with the draft's shares `right`, which are lower for the second draft."""
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
    """A search's result. regret: the choice's cost divided by the lowest cost, minus 1."""

    kind: str
    regret: float
    measured: int
    candidates: int
    sureness: float


def planted_search(scenario: Scenario, seed: int) -> SearchOutcome:
    """Run the deployed search on a scenario to its end."""
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
    # The true costs, without a measurement error.
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
    """Draw a measured cost, and a standard error as uncertain as one from eight blocks."""
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
    """Yield the probability of a right token at each position, from a two-state Markov chain."""
    spread = min(right, 1 - right) * (0.8 if text.lasting else 0.0)
    state = rng.choice((-1, 1))
    for _ in range(TOKENS):
        yield right + state * spread
        if rng.random() > 0.5 + text.lasting / 2 * 0.9:
            state = -state


class DraftModel:
    """A draft that gets a position right or wrong independently of where a step begins."""

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
    """A draft whose predictions depend on where a step begins, and get worse within the step."""

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
        """Return how many tokens after `position` the longest window gets right before a miss."""
        rng = random.Random(f"{self._seed}/{prompt_class}/{number}/{position}")  # noqa: S311
        drafted = self._places[prompt_class][number][position + 1 : position + 1 + WINDOWS[-1]]
        hits = (rng.random() < p * HEAD_FALL**depth for depth, p in enumerate(drafted))
        return sum(takewhile(bool, hits))


def outcomes(runs: int, processes: int) -> list[SearchOutcome]:
    """Run each scenario `runs` times."""
    with ProcessPoolExecutor(processes) as pool:
        return [*pool.map(_of_number, range(runs * len(SCENARIOS)), chunksize=16)]


def _of_number(number: int) -> SearchOutcome:
    return planted_search(SCENARIOS[number % len(SCENARIOS)], number)


def main() -> None:
    """Print a table with a row for each kind of search."""
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
