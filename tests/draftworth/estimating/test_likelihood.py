"""Outputs under the target: right samplers pass, wrong ones are caught. Planted models."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache

import pytest

from draftworth.estimating.likelihood import likelihood_of
from draftworth.records.likelihoods import FALSE_ALARMS
from draftworth.records.readings import Reading

TOKENS, OUTPUTS = 60, 12
Sampler = Callable[[random.Random, tuple[float, ...]], int]


@cache
def model(previous: int, step: int) -> tuple[float, ...]:
    """Logits after a token, a different distribution at each position: some sure, some not."""
    drawn = random.Random(f"{previous} {step}")
    sharpness = drawn.choice((0.2, 1.0, 4.0))
    return tuple(sharpness * drawn.gauss(0, 1) for _ in range(6))


@cache
def chances(logits: tuple[float, ...], temperature: float) -> list[float]:
    weights = [math.exp(x / temperature) for x in logits]
    return [w / sum(weights) for w in weights]


def sampled(temperature: float) -> Sampler:
    return lambda drawn, logits: drawn.choices(range(6), chances(logits, temperature))[0]


def noise(drawn: random.Random, logits: tuple[float, ...]) -> int:
    return drawn.randrange(6)


def read(number: int, sampler: Sampler, *, temperature: float = 0.8) -> Reading:
    """One output of a sampler, read by the model at a temperature."""
    drawn = random.Random(number)
    previous, likelihood, entropy, variance = 0, 0.0, 0.0, 0.0
    for step in range(TOKENS):
        logits = model(previous, step % 7)
        own = chances(logits, temperature)
        previous = sampler(drawn, logits)
        mean = sum(p * math.log(p) for p in own)
        likelihood += math.log(own[previous])
        entropy -= mean
        variance += sum(p * (math.log(p) - mean) ** 2 for p in own)
    return Reading(
        id=str(number),
        prompt_class="chat",
        case="case",
        prompt_id=str(number),
        hits="0" * (TOKENS - 1),
        log_likelihood=likelihood,
        entropy=entropy,
        variance=variance,
    )


def deviation(sampler: Sampler, *, run: int = 0) -> float:
    found = likelihood_of("k7", [read(run * OUTPUTS + n, sampler) for n in range(OUTPUTS)])
    assert found
    return found.deviation


def test_a_right_sampler_raises_no_more_false_alarms_than_are_promised() -> None:
    runs = 300
    limit = 2.576
    alarms = sum(abs(deviation(sampled(0.8), run=n)) > limit for n in range(runs))

    # Three standard errors of a count above the promise.
    most = runs * FALSE_ALARMS + 3 * math.sqrt(runs * FALSE_ALARMS)
    assert alarms <= most


@pytest.mark.parametrize(
    ("sampler", "sign"),
    [(noise, -1), (sampled(1.2), -1), (sampled(0.5), 1)],
    ids=["noise", "too hot", "too cold"],
)
def test_a_wrong_sampler_is_caught(sampler: Sampler, sign: int) -> None:
    found = likelihood_of("k7", [read(n, sampler) for n in range(OUTPUTS)])

    assert found
    assert not found.is_the_targets
    assert found.deviation * sign > 0
    assert found.per_token * sign > 0


def test_a_right_sampler_passes() -> None:
    found = likelihood_of("k7", [read(n, sampled(0.8)) for n in range(OUTPUTS)])

    assert found
    assert found.is_the_targets
    assert (found.outputs, found.tokens) == (OUTPUTS, OUTPUTS * TOKENS)


def test_where_nothing_is_left_to_chance_there_is_nothing_to_check() -> None:
    sure = read(1, sampled(0.8))

    assert likelihood_of("k7", [Reading(**{**vars(sure), "variance": 0.0})]) is None
    assert likelihood_of("k7", []) is None


def test_one_output_is_no_outputs() -> None:
    found = likelihood_of("k7", [read(1, noise)])

    assert found
    assert found.words.endswith(", 1 output)")
