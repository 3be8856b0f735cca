"""How good and how short the search is, counted over searches whose truth is known.

    python -m benchmarks.search [--runs 5] [--processes 2]

A scenario plants a text (how often a draft is right in each prompt class, and how its hits are
correlated from token to token), a device (the cost of a drafted and of a checked token, and of a
jump), an engine's way to count windows, and the error of a measurement. The deployed search
(`draftworth/searching`) then chooses what to measure until it ends. The table has, for each kind of
search, how often the window that it names costs at most 3% more than the best of all (which may be
no draft), and how many candidates it measured. Every draw has a seed, so the table is the same each
time.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

from rich.console import Console
from rich.table import Table

from draftworth.records.search import Candidate, Search
from draftworth.searching.policy import ClassTimes, MeasuredCandidate, SearchState
from draftworth.searching.yields import Yield, from_measured
from draftworth.speculation import TOKENS_BEFORE_A_JUMP, steps_of

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

    def step_cost(self, candidate: Candidate, *, draft_size: float) -> float:
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


@dataclass(kw_only=True)
class PlantedSearch:
    """One search of a scenario."""

    scenario: Scenario
    rng: random.Random

    def __post_init__(self) -> None:
        second = (0.3 + 0.7 * SECOND_SIZE) * math.exp(self.rng.gauss(0, SIZE_DEVIATION))
        self._sizes = {"draft0": 1.0, "draft1": second}

    def outcome(self) -> SearchOutcome:
        """Run the deployed search to its end.

        `truth` has the cost of each candidate without an error of measurement.
        """
        scenario = self.scenario
        candidates = scenario.candidates
        worlds = {c.draft: self._world(c.draft) for c in candidates}
        steps = {c: {n: worlds[c.draft].steps(n, c) for n in WEIGHTS} for c in candidates}
        truth = {c: self._truth(c, steps[c]) for c in candidates}
        search = Search(
            candidates=candidates,
            drafts_read_text=scenario.kind.reads_text,
            step_cost_per_draft=scenario.kind.prior,
            within=WITHIN,
        )
        measured: dict[Candidate, MeasuredCandidate] = {}
        state = SearchState(
            search=search, candidates=candidates, baseline=BASELINE, measured={}, yields={}
        )
        while due := state.next:
            measured[due] = self._measured(truth[due])
            known = self._yields(worlds, candidates, {c: steps[c] for c in measured})
            state = replace(state, measured={**measured}, yields=known)
        return SearchOutcome(
            kind=scenario.kind.name,
            regret=(truth[state.best] if state.pays else 1.0) / min(1.0, *truth.values()) - 1,
            measured=len(measured),
            candidates=len(candidates),
            sureness=state.sureness,
        )

    def _world(self, draft: str) -> World:
        """Return a draft; the second is smaller: less often right, and cheaper."""
        right = {
            n: r * (1 if draft == "draft0" else 0.9) for n, r in self.scenario.text.right.items()
        }
        text = replace(self.scenario.text, right=right)
        world = TextWorld if self.scenario.kind.reads_text else HeadWorld
        return world(text=text, rng=random.Random(self.rng.random()))  # noqa: S311

    def _truth(self, candidate: Candidate, steps: Mapping[str, Sequence[int]]) -> float:
        size = self._sizes[candidate.draft]
        uneven = 1 + self.rng.gauss(0, UNEVEN)
        cost = self.scenario.device.step_cost(candidate, draft_size=size) * uneven
        total = sum(t.weight * (t.first_s + t.decoding_s) for t in BASELINE.values())
        own = sum(
            t.weight * (t.first_s * 1.2 + t.decoding_s * cost / fmean(steps[name]))
            for name, t in BASELINE.items()
        )
        return own / total

    def _measured(self, truth: float) -> MeasuredCandidate:
        """Draw a measurement; its error is known as well as eight blocks show it."""
        degrees = 7
        known = math.sqrt(sum(self.rng.gauss(0, 1) ** 2 for _ in range(degrees)) / degrees)
        return MeasuredCandidate(
            cost=truth * math.exp(self.rng.gauss(0, MEASURING_DEVIATION)),
            deviation=MEASURING_DEVIATION * known,
            first=0.003 * 1.2 / 0.048,
        )

    def _yields(
        self,
        worlds: Mapping[str, World],
        candidates: Sequence[Candidate],
        measured: Mapping[Candidate, Mapping[str, Sequence[int]]],
    ) -> dict[Candidate, Yield]:
        found = {}
        longer = {
            c: {n: _longer_than(steps, c.checked) for n, steps in own.items()}
            for c, own in measured.items()
        }
        for candidate in candidates:
            world = worlds[candidate.draft]
            if isinstance(world, TextWorld) and self.scenario.kind.has_forecast:
                found[candidate] = Yield(tokens={n: world.predicted(n, candidate) for n in WEIGHTS})
            elif told := from_measured(candidate, longer):
                found[candidate] = told
        return found


def _longer_than(steps: Sequence[int], checked: int) -> list[float]:
    return [sum(s > n for s in steps) / len(steps) for n in range(1, checked + 1)]


@dataclass(kw_only=True)
class World:
    """A draft and the outputs of the target."""

    text: Text
    rng: random.Random

    def steps(self, prompt_class: str, candidate: Candidate) -> list[int]:
        """Return the tokens of each step of a server."""
        raise NotImplementedError

    def _luck(self, right: float) -> Iterator[float]:
        """Yield the probability of a hit at each position: a chain of two states, or one."""
        lasting = self.text.lasting
        spread = min(right, 1 - right) * (0.8 if lasting else 0.0)
        state = self.rng.choice((-1, 1))
        for _ in range(TOKENS):
            yield right + state * spread
            if self.rng.random() > 0.5 + lasting / 2 * 0.9:
                state = -state


@dataclass(kw_only=True)
class TextWorld(World):
    """A draft model: it is right or wrong at a position, whatever was drafted before."""

    def __post_init__(self) -> None:
        self._hits = {
            name: [
                [self.rng.random() < p for p in self._luck(self._of_prompt(r))]
                for _ in range(PROMPTS)
            ]
            for name, r in self.text.right.items()
        }
        self._served = {
            name: [[h != (self.rng.random() < NUMERICS) for h in own] for own in outputs]
            for name, outputs in self._hits.items()
        }

    def _of_prompt(self, right: float) -> float:
        return min(0.99, max(0.02, right + self.rng.gauss(0, 0.3 * min(right, 1 - right))))

    def steps(self, prompt_class: str, candidate: Candidate) -> list[int]:
        """Return the server's steps, whose numerics differ here and there from the pass."""
        return _steps(self._served[prompt_class], candidate)

    def predicted(self, prompt_class: str, candidate: Candidate) -> float:
        """Predict the tokens a step from the pass."""
        return fmean(_steps(self._hits[prompt_class], candidate))


def _steps(outputs: Sequence[Sequence[bool]], candidate: Candidate) -> list[int]:
    return [n for hits in outputs for n in steps_of(hits, checked=candidate.checked)]


@dataclass(kw_only=True)
class HeadWorld(World):
    """A head: its hits fall with the depth and depend on the position where a step begins."""

    def __post_init__(self) -> None:
        self._places = {
            name: [[*self._luck(right)] for _ in range(PROMPTS)]
            for name, right in self.text.right.items()
        }
        self._seed = self.rng.random()

    def steps(self, prompt_class: str, candidate: Candidate) -> list[int]:
        """Return the steps; drafts after a position are the same in every window."""
        found = []
        for number, places in enumerate(self._places[prompt_class]):
            position = 0
            while position < len(places):
                rng = random.Random(f"{self._seed}/{prompt_class}/{number}/{position}")  # noqa: S311
                tokens = 1
                while (
                    tokens <= candidate.checked
                    and position + tokens < len(places)
                    and rng.random() < places[position + tokens] * HEAD_FALL ** (tokens - 1)
                ):
                    tokens += 1
                found.append(tokens)
                position += tokens
        return found


def planted_search(scenario: Scenario, seed: int) -> SearchOutcome:
    """Run one search to its end."""
    return PlantedSearch(scenario=scenario, rng=random.Random(seed)).outcome()  # noqa: S311


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
