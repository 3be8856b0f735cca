"""Right samplers of planted models pass the check of their outputs, and wrong ones are caught."""

import math
import random
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate

import pytest

from draftworth.analysis.clustering import MIN_PROMPTS
from draftworth.analysis.likelihood_check import FALSE_ALARMS, judged
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
# A run's usual size: requests of so many tokens.
REQUESTS, LENGTH = 48, 200
# Draws a token after another one at a step.
Sampler = Callable[[random.Random, int, int], int]


@cache
def chances(previous: int, step: int, temperature: float) -> list[float]:
    """A different distribution after each token at each step: some are sure, some not."""
    drawn = random.Random(f"{previous} {step}")
    sharpness = drawn.choice((0.2, 1.0, 4.0))
    weights = [math.exp(sharpness * drawn.gauss(0, 1) / temperature) for _ in range(6)]
    return [w / sum(weights) for w in weights]


@cache
def cumulated(previous: int, step: int, temperature: float) -> list[float]:
    return [*accumulate(chances(previous, step, temperature))]


def sampled(temperature: float) -> Sampler:
    # The last sum may be below 1 by a rounding: a draw above it is the last token too.
    return lambda drawn, previous, step: bisect(
        cumulated(previous, step, temperature), drawn.random(), hi=5
    )


def most_alarms(runs: int) -> float:
    """Three standard errors of a count above the promise."""
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
    """One output of a sampler, read by the model at a temperature."""
    drawn = random.Random(number)
    # Texts of a prompt begin alike.
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
    """Few prompts, each answered several times."""
    first = run * prompts * each
    return [read(first + n, sampler, tokens=40, prompt=n % prompts) for n in range(prompts * each)]


def clustered(readings: list[Reading]) -> float:
    """The same sum in standard errors that are estimated from the sums of prompts."""
    sums: dict[str, float] = {}
    for r in readings:
        sums[r.prompt_id] = sums.get(r.prompt_id, 0.0) + r.log_likelihood + r.entropy
    return sum(sums.values()) / math.sqrt(sum(x * x for x in sums.values()))


def test_outputs_to_one_prompt_count_as_independent() -> None:
    """So the variance that the target gives is right. One that is estimated from prompts is no
    safer: four prompts hardly determine it, and no deviation can exceed the limit then."""
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
        # Near ties, in every output.
        ([0.1] * 16, True),
        # What a model that reads with other roundings may show once.
        ([3.0] + [0.0] * 15, True),
        ([3.0] * 5 + [0.0] * 11, False),
        # One of two is no evidence; two of two are.
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
    """Of one output in twenty the model that reads finds a token beyond a near tie."""
    runs, drawn = 500, random.Random(1)
    likelihoods = [
        greedy_likelihood_of("k7", [greedy(n, 9.0 * (drawn.random() < 0.05)) for n in range(32)])
        for _ in range(runs)
    ]

    assert sum(judged(k).is_the_targets is False for k in likelihoods if k) <= most_alarms(runs)


def by_draft(
    run: int, sampler: Sampler, *, prompts: int = 32, tokens: int = LENGTH
) -> DraftLikelihood:
    """A run's both sides under a draft: the model at another temperature, which is not theirs."""
    numbers = [run * 2 * prompts + n for n in range(2 * prompts)]
    sides = [
        [
            read(n, how, temperature=0.5, tokens=tokens, prompt=n % prompts)
            for n in numbers[start::2]
        ]
        for start, how in ((0, sampler), (1, sampled(0.8)))
    ]
    # Each side answers every prompt.
    drafted, plain = ([replace(r, prompt_id=str(i)) for i, r in enumerate(s)] for s in sides)
    (likelihood,) = draft_likelihoods_of("k7", drafted, plain, draft="draft")
    return likelihood


def test_right_sides_raise_few_alarms_under_a_draft() -> None:
    runs = 300
    likelihoods = [by_draft(n, sampled(0.8), tokens=30, prompts=12) for n in range(runs)]

    assert sum(judged(k).is_the_targets is False for k in likelihoods) <= most_alarms(runs)
    # Nor does the test of no difference at all, which has no margin to be safe by.
    outside = sum(not (k.low or 0.0) <= 0 <= (k.high or 0.0) for k in likelihoods)
    assert outside <= most_alarms(runs)


@pytest.mark.parametrize(("sampler", "word"), [(noise, "less"), (sampled(0.1), "more")])
def test_a_draft_reveals_outputs_of_another_distribution(sampler: Sampler, word: str) -> None:
    likelihood = by_draft(1, sampler)

    assert judged(likelihood).is_the_targets is False
    assert (likelihood.difference > DRAFT_MARGIN_NATS) is (word == "more")
    assert "k7: its answers are not the target's: under draft" in answers_words(judged(likelihood))


def in_class(name: str, readings: Sequence[Reading], *, more_likely: float = 0.0) -> list[Reading]:
    """The same readings of another class, each token so much more likely, in nats."""
    return [
        replace(
            r,
            prompt_class=name,
            log_likelihood=r.log_likelihood + more_likely * (len(r.hits) + 1),
        )
        for r in readings
    ]


def test_opposite_classes_do_not_hide_a_fault() -> None:
    """Noise is less likely than texts that a draft knows, and more likely than unknown ones."""
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
