"""The check of outputs accepts correct samplers of simulated models and refuses wrong ones."""

import math
import random
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate

import pytest

from draftworth.analysis.likelihood_check import FALSE_ALARMS, judged
from draftworth.analysis.spread import MIN_PROMPTS
from draftworth.estimate.output_likelihoods import (
    draft_likelihoods_of,
    greedy_likelihood_of,
    likelihood_of,
)
from draftworth.records.likelihoods import DRAFT_MARGIN_NATS, DraftLikelihood
from draftworth.records.readings import Reading
from draftworth.report.reason_sentences import answers_words
from tests.support.readings import make_reading

TOKENS, OUTPUTS = 60, 12
# A run's usual size: the number of requests, and of tokens in each output.
REQUESTS, LENGTH = 48, 200
# Draws the next token; the two numbers are the previous token and the step.
Sampler = Callable[[random.Random, int, int], int]


@cache
def chances(previous: int, step: int, temperature: float) -> list[float]:
    """The model's probability of each of six tokens, given the previous token and the step.

    The distributions differ: in some one token is nearly certain, in others none is.
    """
    drawn = random.Random(f"{previous} {step}")
    sharpness = drawn.choice((0.2, 1.0, 4.0))
    weights = [math.exp(sharpness * drawn.gauss(0, 1) / temperature) for _ in range(6)]
    return [w / sum(weights) for w in weights]


@cache
def cumulated(previous: int, step: int, temperature: float) -> list[float]:
    return [*accumulate(chances(previous, step, temperature))]


def sampled(temperature: float) -> Sampler:
    # Rounding may leave the last cumulated sum below 1, so a draw above it is the last token too.
    return lambda drawn, previous, step: bisect(
        cumulated(previous, step, temperature), drawn.random(), hi=5
    )


def most_alarms(runs: int) -> float:
    """The expected number of false alarms in `runs` runs, plus three standard errors."""
    return runs * FALSE_ALARMS + 3 * math.sqrt(runs * FALSE_ALARMS)


def noise(drawn: random.Random, previous: int, step: int) -> int:
    return drawn.randrange(6)


@cache
def logs(previous: int, step: int, temperature: float) -> tuple[list[float], float, float]:
    """Return each token's log-likelihood, then the mean and variance over drawn tokens."""
    probabilities = chances(previous, step, temperature)
    mean = sum(p * math.log(p) for p in probabilities)
    variance = sum(p * (math.log(p) - mean) ** 2 for p in probabilities)
    return [math.log(p) for p in probabilities], mean, variance


def read(
    number: int,
    sampler: Sampler,
    *,
    temperature: float = 0.8,
    tokens: int = TOKENS,
    prompt: int | None = None,
) -> Reading:
    """Draw one output with a sampler, and return the model's reading of it at `temperature`.

    number: the seed. prompt: its number; None: a prompt of its own.
    """
    drawn = random.Random(number)
    # All outputs to one prompt follow the same token.
    previous, likelihood, entropy, variance = (prompt or 0) % 6, 0.0, 0.0, 0.0
    for step in range(tokens):
        place = (previous, step % 7)
        of_tokens, mean, spread = logs(*place, temperature)
        previous = sampler(drawn, *place)
        likelihood += of_tokens[previous]
        entropy -= mean
        variance += spread
    return make_reading(
        "0" * (tokens - 1),
        id=str(number),
        prompt_id=str(number if prompt is None else prompt),
        log_likelihood=likelihood,
        entropy=entropy,
        variance=variance,
    )


def deviation(sampler: Sampler, *, run: int = 0) -> float:
    likelihood = likelihood_of("k7", [read(run * OUTPUTS + n, sampler) for n in range(OUTPUTS)])
    assert likelihood
    return likelihood.deviation


def test_a_right_sampler_raises_few_false_alarms() -> None:
    runs = 300
    limit = 2.576
    alarms = sum(abs(deviation(sampled(0.8), run=n)) > limit for n in range(runs))

    assert alarms <= most_alarms(runs)


def of_prompts(run: int, sampler: Sampler, *, prompts: int = 4, each: int = 6) -> list[Reading]:
    """Readings of a sampler's outputs to a few prompts, each answered several times."""
    first = run * prompts * each
    return [read(first + n, sampler, tokens=40, prompt=n % prompts) for n in range(prompts * each)]


def clustered(readings: list[Reading]) -> float:
    """The deviation in standard errors that are estimated from the sums of each prompt.

    `likelihood_of` has the standard error that follows from the target's distribution instead.
    """
    sums: dict[str, float] = {}
    for r in readings:
        sums[r.prompt_id] = sums.get(r.prompt_id, 0.0) + r.log_likelihood + r.entropy
    return sum(sums.values()) / math.sqrt(sum(x * x for x in sums.values()))


def test_outputs_to_one_prompt_count_as_independent() -> None:
    """The variance that follows from the target's distribution is right for repeated prompts too.

    A variance estimated from prompts would not be safer: with four prompts the deviation is never
    above 2 standard errors, so even noise would pass.
    """
    runs = 300
    readings_per_run = [of_prompts(n, sampled(0.8)) for n in range(runs)]
    deviations = [
        k.deviation for readings in readings_per_run if (k := likelihood_of("k7", readings))
    ]

    assert sum(abs(z) > 2.576 for z in deviations) <= most_alarms(runs)
    assert 0.75 < sum(z * z for z in deviations) / runs < 1.25
    noisy = [of_prompts(n, noise) for n in range(5)]
    assert all(abs(clustered(readings)) <= math.sqrt(4) for readings in noisy)
    read_by_target = [likelihood_of("k7", readings) for readings in noisy]
    assert [k and judged(k).is_the_targets for k in read_by_target] == [False] * 5


@pytest.mark.parametrize(("temperature", "least", "most"), [(0.8, 0, 1), (0.9, 19, 20)])
def test_a_temperature_off_by_a_tenth_is_caught(temperature: float, least: int, most: int) -> None:
    def is_caught(run: int) -> bool:
        numbers = range(run * REQUESTS, (run + 1) * REQUESTS)
        likelihood = likelihood_of(
            "k7", [read(n, sampled(temperature), tokens=LENGTH) for n in numbers]
        )
        assert likelihood
        return not judged(likelihood).is_the_targets

    assert least <= sum(is_caught(run) for run in range(20)) <= most


@pytest.mark.parametrize(
    ("sampler", "sign"),
    [(noise, -1), (sampled(1.2), -1), (sampled(0.5), 1)],
    ids=["noise", "too hot", "too cold"],
)
def test_a_wrong_sampler_is_caught(sampler: Sampler, sign: int) -> None:
    likelihood = likelihood_of("k7", [read(n, sampler) for n in range(OUTPUTS)])

    assert likelihood
    assert not judged(likelihood).is_the_targets
    assert likelihood.deviation * sign > 0
    assert likelihood.per_token * sign > 0
    assert (likelihood.outputs, likelihood.tokens) == (OUTPUTS, OUTPUTS * TOKENS)


def test_without_chance_there_is_nothing_to_check() -> None:
    sure = read(1, sampled(0.8))

    assert likelihood_of("k7", [replace(sure, variance=0.0)]) is None
    assert likelihood_of("k7", []) is None


def greedy(number: int, farthest: float) -> Reading:
    return replace(read(number, sampled(0.8), tokens=5), farthest=farthest)


@pytest.mark.parametrize(
    ("farthest", "right"),
    [
        ([0.0] * 16, True),
        # Every output has a token whose log-likelihood is 0.1 below that of the best: a near tie.
        ([0.1] * 16, True),
        # One output may have such a token, because the model in the check rounds differently.
        ([3.0] + [0.0] * 15, True),
        ([3.0] * 5 + [0.0] * 11, False),
        # One wrong output of two is no evidence, two wrong outputs of two are.
        ([3.0, 0.0], True),
        ([3.0, 3.0], False),
    ],
)
def test_greedy_outputs_match_the_target_except_near_ties(
    farthest: list[float], right: bool
) -> None:
    likelihood = greedy_likelihood_of("k7", [greedy(n, f) for n, f in enumerate(farthest)])

    assert likelihood
    assert judged(likelihood).is_the_targets is right
    assert likelihood.beyond == sum(f > 1 for f in farthest)
    assert (
        "a token that the target would not have said" in answers_words(judged(likelihood))
    ) is not right


def test_first_greedy_output_per_prompt_counts() -> None:
    again = [replace(greedy(n, 0.0 if n == 0 else 3.0), prompt_id="p") for n in range(9)]
    likelihood = greedy_likelihood_of("k7", again)

    assert likelihood
    assert (likelihood.outputs, likelihood.beyond) == (1, 0)
    assert greedy_likelihood_of("k7", []) is None


def test_right_greedy_servers_raise_few_false_alarms() -> None:
    """A correct server may have such a token in one of 20 outputs, because of other rounding."""
    runs, drawn = 500, random.Random(1)
    likelihoods = [
        greedy_likelihood_of("k7", [greedy(n, 9.0 * (drawn.random() < 0.05)) for n in range(32)])
        for _ in range(runs)
    ]

    assert sum(judged(k).is_the_targets is False for k in likelihoods if k) <= most_alarms(runs)


def by_draft(
    run: int, sampler: Sampler, *, prompts: int = 32, tokens: int = LENGTH
) -> DraftLikelihood:
    """Compare a variant's and the baseline's outputs under a draft model.

    sampler: how the variant draws tokens; the baseline draws at temperature 0.8. The draft model is
    the same model at temperature 0.5, so its distribution is not the one that was drawn from.
    """
    numbers = [run * 2 * prompts + n for n in range(2 * prompts)]
    sides = [
        [
            read(n, how, temperature=0.5, tokens=tokens, prompt=n % prompts)
            for n in numbers[start::2]
        ]
        for start, how in ((0, sampler), (1, sampled(0.8)))
    ]
    # The variant and the baseline have one output to each prompt.
    drafted, plain = ([replace(r, prompt_id=str(i)) for i, r in enumerate(s)] for s in sides)
    (likelihood,) = draft_likelihoods_of("k7", drafted, plain, draft="draft")
    return likelihood


def test_right_sides_raise_few_alarms_under_a_draft() -> None:
    runs = 300
    likelihoods = [by_draft(n, sampled(0.8), tokens=30, prompts=12) for n in range(runs)]

    assert sum(judged(k).is_the_targets is False for k in likelihoods) <= most_alarms(runs)
    # The interval alone, without the margin `DRAFT_MARGIN_NATS`, also misses 0 rarely enough.
    outside = sum(not (k.low or 0.0) <= 0 <= (k.high or 0.0) for k in likelihoods)
    assert outside <= most_alarms(runs)


@pytest.mark.parametrize(("sampler", "word"), [(noise, "less"), (sampled(0.1), "more")])
def test_a_draft_reveals_outputs_of_another_distribution(sampler: Sampler, word: str) -> None:
    likelihood = by_draft(1, sampler)

    assert judged(likelihood).is_the_targets is False
    assert (likelihood.difference > DRAFT_MARGIN_NATS) is (word == "more")
    assert "k7: its answers are not the target's: under draft" in answers_words(judged(likelihood))


def in_class(name: str, readings: Sequence[Reading], *, more_likely: float = 0.0) -> list[Reading]:
    """The readings as those of another class.

    more_likely: added to the log-likelihood of each token, in nats.
    """
    return [
        replace(
            r,
            prompt_class=name,
            log_likelihood=r.log_likelihood + more_likely * (len(r.hits) + 1),
        )
        for r in readings
    ]


def test_opposite_classes_do_not_hide_a_fault() -> None:
    """Each class is judged by itself, because differences of opposite sign would cancel.

    Under a draft, noise is less likely than texts like those of its training, and more likely than
    others.
    """
    plain = [read(n, sampled(0.8)) for n in range(12)]
    baseline = [*in_class("known", plain), *in_class("unknown", plain)]
    noisy = [
        *in_class("known", plain, more_likely=-3.0),
        *in_class("unknown", plain, more_likely=3.0),
    ]

    likelihoods = draft_likelihoods_of("k7", noisy, baseline, draft="draft")

    assert [(k.prompt_class, round(k.difference)) for k in likelihoods] == [
        ("known", -3),
        ("unknown", 3),
    ]
    assert all(judged(k).is_the_targets is False for k in likelihoods)
    assert all(k.prompts == k.outputs == 12 for k in likelihoods)


def test_with_more_classes_each_interval_is_wider() -> None:
    drafted, plain = (
        [read(n, sampled(0.8), prompt=n % 12) for n in range(s, s + 12)] for s in (0, 12)
    )
    (alone,) = draft_likelihoods_of("k7", drafted, plain, draft="draft")
    beside = draft_likelihoods_of(
        "k7",
        [*drafted, *in_class("other", drafted)],
        [*plain, *in_class("other", plain)],
        draft="draft",
    )

    assert alone.low is not None
    assert len(beside) == 2
    assert all(k.low is not None and k.low < alone.low for k in beside)
    assert all(k.difference == pytest.approx(alone.difference) for k in beside)


def test_too_few_prompts_are_not_called_equal() -> None:
    few = by_draft(2, sampled(0.8), prompts=MIN_PROMPTS - 1)
    short = by_draft(2, sampled(0.8), prompts=MIN_PROMPTS, tokens=10)

    for likelihood in (few, short):
        assert judged(likelihood).is_the_targets is None
        assert "too few" in answers_words(judged(likelihood))
        assert "to tell" in answers_words(judged(likelihood))
    assert few.low is None


def test_sides_without_common_prompts_are_not_compared() -> None:
    one, other = [read(1, noise)], [read(2, noise)]

    assert draft_likelihoods_of("k7", one, other, draft="draft") == []
