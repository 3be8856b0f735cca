"""Samples have no prompt twice, are reproducible and fair, and account for every request."""

import random
from collections import Counter

from draftworth.importing.sampling import LoggedPrompt, PromptSample


def sample_of(contents: list[str], most: int, *, seed: int = 0) -> PromptSample:
    sample = PromptSample(most, seed=seed)
    for number, content in enumerate(contents):
        candidate = LoggedPrompt(number=number, line={"prompt": content}, answer=None, size_bytes=1)
        sample.offer(content.encode(), candidate)
    return sample


def names(sample: PromptSample) -> list[str]:
    return [candidate.line["prompt"] for candidate in sample.drawn]


LOG = [f"p{n}" for n in range(500)]


def test_a_small_log_is_taken_whole_in_order() -> None:
    sample = sample_of(["b", "a", "b", "c", "a", "b"], 64)
    assert names(sample) == ["b", "a", "c"]
    assert (sample.repeats, sample.not_drawn) == (3, 0)


def test_log_and_seed_decide_the_prompts_drawn() -> None:
    shuffled = random.Random(1).sample(LOG, len(LOG))
    first, again = sample_of(LOG, 20), sample_of(shuffled, 20)
    assert {*names(first)} == {*names(again)}
    assert {*names(first)} != {*names(sample_of(LOG, 20, seed=1))}


def test_every_request_is_drawn_repeated_or_not_drawn() -> None:
    log = [*LOG, *LOG[:100], *["p3"] * 50]
    sample = sample_of(log, 20)
    drawn = names(sample)
    counts = Counter(log)
    assert sample.repeats == sum(counts[name] - 1 for name in drawn)
    assert sample.not_drawn == len(log) - sample.repeats - 20
    assert sample.size_bytes == len(drawn) == 20


def test_every_different_prompt_has_the_same_chance() -> None:
    """Of 40 prompts, one is in the log 41 times; 400 samples of 10 have each about 100 times."""
    log = [f"p{n}" for n in range(40)] + ["p0"] * 40
    times = Counter(name for seed in range(400) for name in names(sample_of(log, 10, seed=seed)))
    # 43 is five standard deviations of the binomial distribution (400 samples, probability 1/4).
    assert all(abs(times[f"p{n}"] - 100) < 43 for n in range(40))
