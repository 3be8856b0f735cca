"""Counts how often the search chooses a good window and how much it measures, with known truths.

    python -m benchmarks.search [--runs 5] [--processes 2]

A scenario has a simulated text, a device, a number of unchecked tokens (`scenarios.yaml`) and an
error of measurement (docs/appendix/search.md); its true costs are known. The deployed search
(`draftworth/searching`) chooses what to measure until it ends. All random numbers are seeded, so
the tables are the same each time.
"""

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import accumulate, count, product, takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from draftworth.analysis.clustering import Sample
from draftworth.records.search_result import Candidate, Search
from draftworth.searching.measurements import deviation_between_rounds
from draftworth.searching.next_candidate import ClassTimes, MeasuredCandidate, SearchState
from draftworth.searching.predicted_tokens_per_step import Yield, from_means, from_measured

WINDOWS = 13
FIRST_WINDOW = 3
WITHIN = 0.03
TARGET = 0.95
PROMPTS, TOKENS = 16, 200
# The second draft's size divided by the first's, and the standard deviation of the logarithm of the
# random factor on the second draft's cost.
SECOND_SIZE, SIZE_DEVIATION = 0.35, 0.2
# Standard deviation of a measured cost's logarithm.
MEASURING_DEVIATION = 0.0125
# Share of tokens for which an estimate before the search is wrong about whether the draft predicts
# them, because the server's arithmetic rounds differently.
NUMERICS = 0.003
# In each prompt class, BLOCKS blocks of REQUESTS requests are measured.
BLOCKS, REQUESTS = 4, 8
# The standard deviation of log(cost) over prompts; it is the same for all candidates.
PROMPTS_DIFFER = 0.2
# A draft head's probability of a right token is multiplied by this for each token that it has
# drafted before in the step.
HEAD_DECAY = 0.95
# Standard deviation of the random relative change of each window's step cost.
UNEVEN = 0.01


@dataclass(frozen=True, kw_only=True)
class Text:
    """A kind of text to generate, by how well a draft predicts it.

    right: (prompt class, share of its tokens that a draft predicts), for each class.
    lasting: from 0 (right tokens are independent) to 1 (right tokens come in long runs).
    """

    name: str
    right: tuple[tuple[str, float], ...]
    lasting: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Device:
    """A simulated device, as the parts of a decoding step's cost on it.

    Their unit is the cost of a step without a draft.
    fixed: added to each step with a draft. per_drafted, per_checked: added for each drafted or
        checked token.
    jump: added once for each number in `jump_at` that is less than the number of tokens for which
        the target model computes in a step, which is the number of checked tokens + 1.
    """

    name: str
    fixed: float
    per_drafted: float
    per_checked: float
    jump_at: tuple[int, ...] = ()
    jump: float = 0.4

    def step_cost(self, candidate: Candidate, draft_size: float) -> float:
        """Return the cost of a step of a candidate / the cost of a step without a draft.

        draft_size: factor on the cost of a drafted token.
        """
        return (
            1
            + self.fixed
            + self.per_drafted * draft_size * candidate.window
            + self.per_checked * candidate.checked
            + self.jump * sum(candidate.checked + 1 > tokens for tokens in self.jump_at)
        )


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of simulated search, by what drafts there are and what is known of them.

    drafts: the number of drafts. reads_text: whether they are draft models, which can predict a
        given text, and not draft heads, which need the target model's hidden states.
    prior: the lowest and the highest cost that a drafted token adds to a step, as the search
        assumes before it measures; the unit is the cost of a step without a draft.
    share: the target is to measure at most this share of all candidates, on average.
    has_forecast: whether there are estimates of accepted tokens before the search. Without them a
        draft model, like a head, is judged only by the tokens per step of its measured windows.
    has_counters: whether the server counts the accepted tokens at each depth. Without counters only
        the mean tokens of a step are known. prompts: number of prompts in each prompt class.
    decay: factor on a head's probability of a right token, for each earlier token of the step.
    """

    name: str
    drafts: int
    reads_text: bool
    prior: tuple[float, float]
    share: float = 1 / 3
    has_forecast: bool = False
    has_counters: bool = True
    prompts: int = PROMPTS
    decay: float = HEAD_DECAY


SCENARIOS_FILE = Path(__file__).with_name("scenarios.yaml")
_DECLARED: Mapping[str, Any] = yaml.safe_load(SCENARIOS_FILE.read_text(encoding="utf-8"))
KINDS = tuple(Kind(**fields) for fields in _DECLARED["kinds"])
DEVICES = tuple(Device(**fields) for fields in _DECLARED["devices"])
TEXTS = tuple(
    Text(name=f"{name}, {luck}", right=tuple(right.items()), lasting=lasting)
    for (name, right), (luck, lasting) in product(
        _DECLARED["texts"].items(), _DECLARED["lasting"].items()
    )
)
WEIGHTS = {"structured": 0.6, "open_ended": 0.4}
BASELINE = {n: ClassTimes(weight=w, first_s=0.003, decoding_s=0.045) for n, w in WEIGHTS.items()}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """The settings of simulated searches in which each candidate's true cost is known.

    kind: what drafts there are, and what is known of them. text: how well they predict the outputs.
    device: what the steps cost.
    unchecked: how many drafted tokens of a step the target model does not check.
    """

    kind: Kind
    text: Text
    device: Device
    unchecked: int

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        # A search can see a jump at few tokens only if a candidate's steps have no more tokens than
        # that: the windows begin there.
        below_jump = min(self.device.jump_at, default=math.inf) - 1 + self.unchecked
        first = int(min(FIRST_WINDOW, below_jump))
        return tuple(
            Candidate(
                variant=f"draft{draft}-k{window}",
                draft=f"draft{draft}",
                window=window,
                checked=window - self.unchecked,
                draft_size=1.0 if draft == 0 else SECOND_SIZE,
            )
            for draft in range(self.kind.drafts)
            for window in range(first, first + WINDOWS)
        )


# The outermost loop is over the texts, so that searches that share a text's random draft, which
# `_drawn` caches, follow each other.
SCENARIOS = tuple(
    Scenario(kind=kind, text=text, device=device, unchecked=unchecked)
    for text, kind, device, unchecked in product(TEXTS, KINDS, DEVICES, _DECLARED["unchecked"])
)


@dataclass(frozen=True, kw_only=True)
class SearchOutcome:
    """The result of a simulated search.

    regret: the true cost of the chosen candidate divided by the lowest true cost, minus 1.
    for_new: the regret of this choice for other prompts of the same kind.
    measured, candidates: number of measured candidates, and of all candidates.
    sureness: the probability, as the search states it, that no candidate is cheaper than the chosen
        one by more than `WITHIN`. true: whether by the true costs none is cheaper by that much.
    near: the number of candidates that cost at most `WITHIN` more than the lowest cost.
    has_good_one: whether a candidate that `near` counts was measured, or the baseline is cheapest.
    """

    kind: str
    device: str
    regret: float
    for_new: float
    measured: int
    candidates: int
    sureness: float
    true: bool
    near: int
    has_good_one: bool

    @property
    def is_right(self) -> bool:
        return self.regret <= WITHIN


def planted_search(scenario: Scenario, seed: int) -> SearchOutcome:
    """Run the deployed search on a scenario to its end, and compare its choice with the truth."""
    rng = random.Random(seed)  # noqa: S311 (reproducible draws, no secret)
    second = (0.3 + 0.7 * SECOND_SIZE) * math.exp(rng.gauss(0, SIZE_DEVIATION))
    candidates, kind = scenario.candidates, scenario.kind
    run = seed // len(SCENARIOS)
    drafted = partial(
        _drawn, scenario.text, reads_text=kind.reads_text, prompts=kind.prompts, decay=kind.decay
    )
    drafts = {c.draft: drafted(c.draft, run) for c in candidates}
    new_drafts = {c.draft: drafted(c.draft, -1 - run) for c in candidates}
    step_costs = {
        c: scenario.device.step_cost(c, 1.0 if c.draft == "draft0" else second)
        * (1 + rng.gauss(0, UNEVEN))
        for c in candidates
    }
    # The costs without measurement error, for the measured prompts and then for new prompts.
    truth = {c: _cost(step_costs[c], drafts[c.draft], c.checked) for c in candidates}
    new = {c: _cost(step_costs[c], new_drafts[c.draft], c.checked) for c in candidates}
    state = _searched(scenario, drafts, truth, rng)
    lowest, chosen = min(1.0, *truth.values()), state.best
    within = [c for c, cost in truth.items() if cost <= (1 + WITHIN) * lowest]
    regret = (truth[chosen] if state.pays else 1.0) / lowest - 1
    return SearchOutcome(
        kind=kind.name,
        device=scenario.device.name,
        regret=regret,
        for_new=(new[chosen] if state.pays else 1.0) / min(1.0, *new.values()) - 1,
        measured=len(state.measured),
        candidates=len(candidates),
        sureness=state.sureness,
        true=1 / (1 + regret) >= 1 - WITHIN,
        near=len(within),
        has_good_one=lowest == 1 or any(c in state.measured for c in within),
    )


def _searched(
    scenario: Scenario,
    drafts: Mapping[str, "Draft"],
    truth: Mapping[Candidate, float],
    rng: random.Random,
) -> SearchState:
    candidates, kind = scenario.candidates, scenario.kind
    forecast = {
        c: Yield(tokens={n: draft.mean(n, c.checked) for n in WEIGHTS})
        for c in candidates
        if kind.has_forecast and (draft := drafts[c.draft].forecast)
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
        measured[due] = _measured(truth[due], kind.prompts, rng)
        yields = forecast or _yields(scenario, drafts, measured)
        state = replace(state, measured={**measured}, yields=yields)
    return state


def _cost(step_cost: float, draft: "Draft", checked: int) -> float:
    total = sum(t.weight * (t.first_s + t.decoding_s) for t in BASELINE.values())
    with_draft = sum(
        t.weight * (t.first_s * 1.2 + t.decoding_s * step_cost / draft.mean(name, checked))
        for name, t in BASELINE.items()
    )
    return with_draft / total


def _measured(truth: float, prompts: int, rng: random.Random) -> MeasuredCandidate:
    """Return a simulated measurement of a candidate: its true cost with a random error.

    truth: the true cost. prompts: number of prompts in each prompt class.
    The measurement states its own standard deviation, estimated from simulated requests. Half of
    the error's variance is between blocks, half between requests.
    """
    noise = MEASURING_DEVIATION / math.sqrt(2 * sum(w**2 for w in WEIGHTS.values()))
    parts, error = [], 0.0
    for name, weight in WEIGHTS.items():
        differ = [rng.gauss(0, PROMPTS_DIFFER) for _ in range(prompts)]
        mean = fmean(differ)
        for number in range(BLOCKS):
            of_block = rng.gauss(0, noise * math.sqrt(BLOCKS))
            for index in range(number * REQUESTS, (number + 1) * REQUESTS):
                noisy = of_block + rng.gauss(0, noise * math.sqrt(BLOCKS * REQUESTS))
                error += weight * noisy / (BLOCKS * REQUESTS)
                prompt = index % prompts
                value = weight * (noisy + differ[prompt] - mean) / (BLOCKS * REQUESTS)
                block, of = f"{name}/{number}", f"{name}/{prompt}"
                parts.append(Sample(stratum=name, prompt=of, block=block, value=value))
    return MeasuredCandidate(
        cost=truth * math.exp(error),
        deviation=deviation_between_rounds(parts),
        first=0.003 * 1.2 / 0.048,
    )


def _yields(
    scenario: Scenario, drafts: Mapping[str, "Draft"], measured: Iterable[Candidate]
) -> dict[Candidate, Yield]:
    measured_drafts = {c: drafts[c.draft] for c in measured}
    if scenario.kind.has_counters:
        longer = {
            c: {n: d.longer_than(n, c.checked) for n in WEIGHTS} for c, d in measured_drafts.items()
        }
        predict = partial(from_measured, longer_than=longer)
    else:
        means = {c: {n: d.mean(n, c.checked) for n in WEIGHTS} for c, d in measured_drafts.items()}
        predict = partial(from_means, means=means)
    return {c: prediction for c in scenario.candidates if (prediction := predict(c))}


def _luck(text: Text, right: float, rng: random.Random) -> Iterator[float]:
    """Yield, for each position of an output, the probability that a draft predicts its token.

    right: the mean probability. Unless `text.lasting` is 0, the probability is higher in some
        stretches of the output and lower in the others.
    """
    spread = min(right, 1 - right) * (0.8 if text.lasting else 0.0)
    state = rng.choice((-1, 1))
    for _ in range(TOKENS):
        yield right + state * spread
        if rng.random() > 0.5 + text.lasting / 2 * 0.9:
            state = -state


Accepted = Mapping[str, Sequence[Sequence[int]]]


class Draft:
    """A simulated draft model or head, with the tokens that it gets right in one random text.

    accepted: by prompt class, for each prompt and each position of its output: how many of the next
        tokens the draft gets right before a miss.
    forecast: what an estimate before the search takes for this draft's accepted tokens, with a few
        errors; None: there is no estimate.
    """

    def __init__(self, accepted: Accepted, forecast: "Draft | None" = None) -> None:
        self._accepted, self.forecast = accepted, forecast
        self.longer_than = cache(self._longer_than)
        self.mean = cache(self._mean)

    def _steps(self, prompt_class: str, checked: int) -> list[int]:
        steps = []
        for accepted in self._accepted[prompt_class]:
            position = 0
            while position < TOKENS:
                steps.append(1 + min(checked, accepted[position]))
                position += steps[-1]
        return steps

    def _mean(self, prompt_class: str, checked: int) -> float:
        return fmean(self._steps(prompt_class, checked))

    def _longer_than(self, prompt_class: str, checked: int) -> list[float]:
        counts, steps = Counter(self._steps(prompt_class, checked)), 0
        shares = []
        for tokens in range(checked + 1, 1, -1):
            steps += counts[tokens]
            shares.append(steps / counts.total())
        return shares[::-1]


def _draft_model(text: Text, prompts: int, rng: random.Random) -> Draft:
    """Return a random draft model, with its hits in `prompts` outputs of each prompt class.

    A hit is a token that it predicts right, which does not depend on where the step started. Its
    forecast takes a few hits for misses, and a few misses for hits.
    """

    def of_prompt(right: float) -> float:
        drawn = right + rng.gauss(0, 0.3 * min(right, 1 - right))
        return min(0.99, max(0.02, drawn))

    hits = {
        name: [
            [rng.random() < p for p in _luck(text, of_prompt(right), rng)] for _ in range(prompts)
        ]
        for name, right in text.right
    }
    served = {
        name: [[hit != (rng.random() < NUMERICS) for hit in output] for output in outputs]
        for name, outputs in hits.items()
    }
    return Draft(_runs(served), forecast=Draft(_runs(hits)))


def _runs(hits: Mapping[str, Sequence[Sequence[bool]]]) -> Accepted:
    """Return how many hits follow each position before the next miss or the end of the output.

    hits: by prompt class, for each prompt and each position: whether the draft's token is right.
    """

    def of_output(output: Sequence[bool]) -> list[int]:
        return [*accumulate(output[-2::-1], lambda run, hit: run + 1 if hit else 0, initial=0)][
            ::-1
        ]

    return {name: [of_output(output) for output in outputs] for name, outputs in hits.items()}


def _head(text: Text, prompts: int, decay: float, rng: random.Random) -> Draft:
    """Return a random draft head, which is right less often with each further token of a step.

    prompts: number of outputs in each prompt class.
    decay: factor on the probability of a right token for each token drafted before in the step.
    """
    factors = [decay**depth for depth in range(FIRST_WINDOW + WINDOWS)]

    def accepted(places: Sequence[float], position: int) -> int:
        drafted = zip(factors, places[position + 1 :], strict=False)
        return sum(takewhile(bool, (rng.random() < p * f for f, p in drafted)))

    return Draft(
        {
            name: [
                [accepted(places, position) for position in range(TOKENS)]
                for places in [[*_luck(text, right, rng)] for _ in range(prompts)]
            ]
            for name, right in text.right
        }
    )


@lru_cache(maxsize=64)
def _drawn(
    text: Text, draft: str, run: int, *, reads_text: bool, prompts: int, decay: float
) -> Draft:
    """Return a random draft for a text; equal arguments always give an equal draft.

    draft: the draft's name; `draft0` predicts more tokens rightly than all others.
    run: number of the simulated search. reads_text: whether the draft is a model, not a head.
    prompts: number of prompts in each class. decay: factor on a head's acceptance for each further
        token of a step.
    """
    rng = random.Random(random.Random(f"{text.name}/{draft}/{run}").random())  # noqa: S311
    # The second draft predicts fewer tokens rightly than the first.
    factor = 1 if draft == "draft0" else 0.9
    of_draft = replace(text, right=tuple((n, r * factor) for n, r in text.right))
    return (
        _draft_model(of_draft, prompts, rng) if reads_text else _head(of_draft, prompts, decay, rng)
    )


def outcomes(runs: int, processes: int) -> list[SearchOutcome]:
    """Run each scenario's search `runs` times in `processes` processes; return all results."""
    scenarios_per_text = len(SCENARIOS) // len(TEXTS)
    with ProcessPoolExecutor(processes) as pool:
        return [*pool.map(planted_search, SCENARIOS * runs, count(), chunksize=scenarios_per_text)]


# By a column's heading: the function that returns what the column shows in a row of the table, from
# the row's searches.
COLUMNS: Mapping[str, Callable[[Sequence[SearchOutcome]], str]] = {
    "searches": lambda searches: str(len(searches)),
    "within 3%": lambda searches: f"{fmean(o.is_right for o in searches):.1%}",
    "worst": lambda searches: f"{max(o.regret for o in searches):.1%}",
    "for new prompts": lambda searches: f"{fmean(o.for_new <= WITHIN for o in searches):.1%}",
    "measured": lambda searches: f"{fmean(o.measured for o in searches):.2f}",
    "of": lambda searches: str(searches[0].candidates),
    "part": lambda searches: (
        f"1/{searches[0].candidates / fmean(o.measured for o in searches):.1f}"
    ),
    "said to be sure": lambda searches: f"{fmean(o.sureness for o in searches):.1%}",
    "true": lambda searches: f"{fmean(o.true for o in searches):.1%}",
}
# Further columns of the table by kind and device, with possible reasons for a bad row.
REASONS: Mapping[str, Callable[[Sequence[SearchOutcome]], str]] = {
    "none measured": lambda searches: f"{fmean(not o.has_good_one for o in searches):.1%}",
    "windows within 3%": lambda searches: f"{fmean(o.near for o in searches):.1f}",
}


def main() -> int:
    """Print a table by kind of search, and one by kind and device.

    Return 1 if a kind misses the target, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="searches of each scenario")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    of_kinds: dict[str, list[SearchOutcome]] = {kind.name: [] for kind in KINDS}
    of_cells: dict[str, list[SearchOutcome]] = {}
    for outcome in outcomes(arguments.runs, arguments.processes):
        of_kinds[outcome.kind].append(outcome)
        of_cells.setdefault(f"{outcome.kind}; {outcome.device}", []).append(outcome)
    title = f"{len(SCENARIOS)} scenarios, {arguments.runs} searches of each"
    for rows, columns in ((of_kinds, COLUMNS), (of_cells, {**COLUMNS, **REASONS})):
        table = Table("search", *columns, title=title, box=SIMPLE)
        for name, searches in rows.items():
            table.add_row(name, *(text(searches) for text in columns.values()))
        Console(width=200).print(table)
    missed = [kind.name for kind in KINDS if not _meets_target(kind, of_kinds[kind.name])]
    print(f"Target ({TARGET:.0%} within 3%, few measured): {'; '.join(missed) or 'met'}")
    return 1 if missed else 0


def _meets_target(kind: Kind, searches: Sequence[SearchOutcome]) -> bool:
    measured = fmean(o.measured for o in searches) / searches[0].candidates
    return fmean(o.is_right for o in searches) >= TARGET and measured <= kind.share


if __name__ == "__main__":
    raise SystemExit(main())
