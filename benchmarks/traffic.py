"""Counts how often the cost ratio of all logged traffic is right, when a few prompts are measured.

    python -m benchmarks.traffic [--runs 500] [--table methods]

A log of 2,000 prompts is planted with each prompt's true cost ratio, output tokens and forecast.
Some prompts are chosen and measured in two rounds, with noise of blocks (3%) and of requests (2%),
and the truth is the cost ratio of all prompts. docs/appendix/calibration.md explains the columns,
and docs/decisions/0047-all-logged-traffic.md says which method is deployed. All random numbers are
seeded.
"""

import argparse
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from statistics import fmean, median

from rich.console import Console
from rich.table import Table

from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Pair
from draftworth.analysis.ratios import LogRatio
from draftworth.analysis.traffic_ratio import MeasuredPart, measured_part
from draftworth.importing.choosing import chosen_prompts
from draftworth.records.logged_traffic import ChosenPrompt, LoggedTraffic, PromptForecast
from draftworth.records.results import RequestRecord

PROMPTS, ROUNDS, PER_BLOCK = 2_000, 2, 8
_BLOCK_ERROR, _REQUEST_ERROR, _MEAN_TOKENS, _LENGTHS = 0.03, 0.02, 300, 0.8
# No prompt costs more than a step with a draft that accepts nothing, and none less than one whose
# drafts are all accepted. Lengths end at the model's limit of tokens.
_LEAST, _MOST, _LONGEST = -1.2, 0.7, 2.5
# Of a mixture: 30% of the prompts cost 0.4, the others 1.2.
_CHEAP_SHARE, _CHEAP, _DEAR = 0.3, math.log(0.4), math.log(1.2)
_TAIL = 0.75


@dataclass(frozen=True, kw_only=True)
class World:
    """The settings of planted logs.

    shape: how the logarithms of the prompts' cost ratios are distributed. spread: their standard
        deviation.
    correlation: of a prompt's forecast with the logarithm of its cost ratio.
    scale: what the logarithm of a calibrated forecast is multiplied by. is_flat: whether the
        forecast is the same for the cheaper half of the prompts, and lengths are correlated with
        cost ratios by 0.5.
    chosen: number of prompts that are chosen.
    noise: what the errors of blocks and of requests are multiplied by.
    """

    shape: str = "normal"
    spread: float = 0.2
    correlation: float = 0.9
    scale: float = 1.0
    is_flat: bool = False
    chosen: int = 32
    noise: float = 1.0


def _standard(shape: str, generator: random.Random) -> float:
    """Return a random number with mean 0 and standard deviation 1 of a distribution."""
    if shape == "mixture":
        mean = _CHEAP_SHARE * _CHEAP + (1 - _CHEAP_SHARE) * _DEAR
        deviation = math.sqrt(_CHEAP_SHARE * (1 - _CHEAP_SHARE)) * (_DEAR - _CHEAP)
        return ((_CHEAP if generator.random() < _CHEAP_SHARE else _DEAR) - mean) / deviation
    if shape == "heavy tails":  # Student's t with 4 degrees of freedom
        squares = math.fsum(generator.gauss(0, 1) ** 2 for _ in range(4))
        return generator.gauss(0, 1) / math.sqrt(squares / 4) / math.sqrt(2)
    if shape == "a few far cheaper":
        variance = math.expm1(_TAIL**2) * math.exp(_TAIL**2)
        return (math.exp(_TAIL**2 / 2) - generator.lognormvariate(0, _TAIL)) / math.sqrt(variance)
    return generator.gauss(0, 1)


def _between(low: float, value: float, high: float) -> float:
    return min(high, max(low, value))


@dataclass(frozen=True, kw_only=True)
class Log:
    """A planted log: each prompt's forecast, and the logarithm of its true cost ratio, by id."""

    forecasts: Sequence[PromptForecast]
    costs: Mapping[str, float]

    @cached_property
    def tokens(self) -> int:
        return sum(forecast.tokens for forecast in self.forecasts)

    @cached_property
    def truth(self) -> float:
        costs = (math.exp(self.costs[f.id]) * f.tokens for f in self.forecasts)
        return math.fsum(costs) / self.tokens

    def traffic(self, chosen: Sequence[ChosenPrompt]) -> LoggedTraffic:
        return LoggedTraffic(
            prompt_class="log",
            case="log",
            draft="draft",
            window=5,
            prompts=len(self.forecasts),
            tokens=self.tokens,
            steps_per_token=sum(f.steps for f in self.forecasts) / self.tokens,
            seed=0,
            chosen=tuple(chosen),
        )


@cache
def planted_log(world: World, seed: int) -> Log:
    """Return a log of `world`; a log serves several runs, because planting one takes long."""
    generator = random.Random(seed)  # noqa: S311 (reproducible draws, not a secret)
    forecasts, costs = [], {}
    for number in range(PROMPTS):
        effect, other = _standard(world.shape, generator), generator.gauss(0, 1)
        seen = world.correlation * effect + math.sqrt(1 - world.correlation**2) * other
        forecast = world.spread * world.scale * max(world.correlation, 0.3) * seen
        length = _between(-_LONGEST, generator.gauss(0, 1), _LONGEST)
        if world.is_flat:
            forecast = max(forecast, 0.0)
            length = 0.5 * _between(-_LONGEST, effect, _LONGEST) + math.sqrt(0.75) * length
        tokens = max(8, round(_MEAN_TOKENS * math.exp(_LENGTHS * length)))
        steps = max(1, round(tokens * math.exp(_between(_LEAST, forecast, _MOST)) / 3))
        costs[str(number)] = _between(_LEAST, world.spread * effect, _MOST)
        forecasts.append(
            PromptForecast(
                prompt_class="log", case="log", id=str(number), tokens=tokens, steps=steps
            )
        )
    return Log(forecasts=forecasts, costs=costs)


def measured_pairs(
    log: Log, chosen: Sequence[ChosenPrompt], seed: int, *, noise: float
) -> list[Pair]:
    """Simulate a run: each chosen prompt is measured once in each round, in pairs of blocks."""
    generator = random.Random(f"noise {seed}")  # noqa: S311
    pairs: list[Pair] = []
    for number, prompt in product(range(ROUNDS), range(len(chosen))):
        block = (number * len(chosen) + prompt) // PER_BLOCK
        if not pairs or pairs[-1].place.block != str(block):
            blocks = [generator.gauss(0, noise * _BLOCK_ERROR) for _ in range(2)]
        errors = [error + generator.gauss(0, noise * _REQUEST_ERROR) for error in blocks]
        pairs.append(_pair(log, chosen[prompt], str(block), errors))
    return pairs


def _pair(log: Log, prompt: ChosenPrompt, block: str, errors: Sequence[float]) -> Pair:
    plain, drafted = (
        RequestRecord(
            error_code=None,
            error_msg="",
            end_to_end_latency_s=prompt.tokens * math.exp(log_cost + error),
            number_output_tokens=prompt.tokens,
            request_id=prompt.id,
            prompt_id=prompt.id,
            started_at_unix_s=0.0,
            chunks=prompt.tokens,
            usage_source="every_chunk",
        )
        for log_cost, error in zip((0.0, log.costs[prompt.id]), errors, strict=True)
    )
    place = Sample(stratum="log", prompt=prompt.id, block=block, repetition="1", value=0.0)
    return Pair(prompt_class="log", round=1, place=place, plain=plain, drafted=drafted)


# The methods that are compared, by name: (whether prompts are chosen in proportion to tokens, what
# is computed of the measured part).
Method = tuple[bool, Callable[[MeasuredPart], LogRatio]]
NO_FORECAST, DEPLOYED = "random, no forecast", "by tokens, others' line"
METHODS: Mapping[str, Method] = {
    NO_FORECAST: (False, lambda part: part.cost),
    "random, fitted line": (False, lambda part: part.without(part.slope)),
    "by tokens, no forecast": (True, lambda part: part.cost),
    "by tokens, slope 1": (True, lambda part: part.without(1.0)),
    "by tokens, fitted line": (True, lambda part: part.without(part.slope)),
    DEPLOYED: (True, lambda part: part.with_forecast()),
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Says whether a simulated interval contains the truth, and how wide it is (relative)."""

    covers: bool
    width: float


def outcomes(world: World, runs: int) -> dict[str, list[Outcome]]:
    """Simulate `runs` runs of a world; return what each method says of them."""
    by_method: dict[str, list[Outcome]] = {name: [] for name in METHODS}
    for seed in range(runs):
        log = planted_log(world, seed % 25)
        parts = {
            by_tokens: _part(log, world, seed, by_tokens=by_tokens) for by_tokens in (False, True)
        }
        for name, (by_tokens, compute) in METHODS.items():
            ratio = compute(parts[by_tokens]).estimate()
            low, high = ratio.interval or (0.0, math.inf)
            width = ratio.relative_width or math.inf
            by_method[name].append(Outcome(covers=low <= log.truth <= high, width=width))
    return by_method


def _part(log: Log, world: World, seed: int, *, by_tokens: bool) -> MeasuredPart:
    if by_tokens:
        chosen = chosen_prompts(log.forecasts, world.chosen, seed=seed)
    else:
        drawn = random.Random(seed).sample(log.forecasts, world.chosen)  # noqa: S311
        # With as many parts as tokens, each prompt has the weight 1, as in a verdict of the run.
        chosen = tuple(
            ChosenPrompt(
                id=f.id, tokens=f.tokens, steps_per_token=f.steps_per_token, parts=f.tokens
            )
            for f in drawn
        )
    part = measured_part(measured_pairs(log, chosen, seed, noise=world.noise), log.traffic(chosen))
    if part is None:
        raise ValueError("no tokens are planted")
    return part


SHAPES = ("normal", "mixture", "heavy tails", "a few far cheaper")
TABLES: Mapping[str, Sequence[World]] = {
    "correlation": [
        World(shape=shape, correlation=correlation)
        for shape, correlation in product(SHAPES, (0.0, 0.5, 0.7, 0.9))
    ],
    "spread": [
        World(spread=spread, correlation=correlation)
        for spread, correlation in product((0.1, 0.4), (0.0, 0.7, 0.9))
    ],
    "prompts": [
        World(shape=shape, spread=0.4, correlation=correlation, chosen=chosen)
        for chosen, shape, correlation in product((16, 64), SHAPES, (0.0, 0.9))
    ],
    "hardly any noise": [
        World(shape=shape, spread=0.4, correlation=correlation, chosen=chosen, noise=0.1)
        for chosen, shape, correlation in product((16, 32), SHAPES, (0.0, 0.9))
    ],
    "hidden": [
        World(
            shape="mixture", spread=0.4, correlation=0.0, is_flat=True, chosen=chosen, noise=noise
        )
        for chosen, noise in product((16, 32, 64), (0.1, 1.0))
    ],
    "calibration": [
        replace(world, shape=shape, spread=0.4, chosen=chosen)
        for shape, chosen, world in product(
            ("normal", "mixture"),
            (16, 32),
            (World(scale=2.0), World(scale=0.5), World(is_flat=True)),
        )
    ],
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print each table: the coverage and the width of each method in each world."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=500, help="of each world (%(default)s)")
    parser.add_argument("--table", choices=TABLES, action="append", help="default: each")
    arguments = parser.parse_args(argv)
    console = Console(width=200)
    for name in arguments.table or TABLES:
        console.print(_table(TABLES[name], arguments.runs))
    return 0


def _table(worlds: Sequence[World], runs: int) -> Table:
    table = Table("shape", "spread", "correlation", "scale", "chosen", "noise", *METHODS, box=None)
    for world in worlds:
        by_method = outcomes(world, runs)
        usual = median(o.width for o in by_method[NO_FORECAST])
        scale = "flat" if world.is_flat else f"{world.scale:g}"
        table.add_row(
            *(world.shape, f"{world.spread:.0%}", f"{world.correlation:g}", scale),
            *(str(world.chosen), f"{world.noise:g}"),
            *(
                f"{fmean(o.covers for o in of_method):.3f}  "
                f"{median(o.width for o in of_method) / usual:.2f}"
                for of_method in by_method.values()
            ),
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
