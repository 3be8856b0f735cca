"""What the servers of `benchmarks/held_out.py` play, and what is forecast of it."""

import random
from statistics import correlation

from benchmarks.held_out import CASES, PROMPTS, chunks_of, forecast_of, planted_prompts


def test_a_prompts_answer_has_its_tokens_and_steps() -> None:
    for prompt in planted_prompts(random.Random(1)):
        chunks = chunks_of(prompt.tokens, prompt.steps, 0.004)
        assert sum(chunk.tokens for chunk in chunks) == prompt.tokens
        assert len(chunks) == prompt.steps
        assert min(chunk.tokens for chunk in chunks) >= 1


def test_worse_forecasts_agree_less_with_the_steps() -> None:
    prompts = planted_prompts(random.Random(1))
    assert len({prompt.case for prompt in prompts}) == CASES
    assert len(prompts) == PROMPTS
    truth = [prompt.steps_per_token for prompt in prompts]
    agreements = [
        correlation(truth, [f.steps_per_token for f in forecast_of(prompts, error, generator)])
        for error in (0.0, 0.2, 2.0)
        for generator in [random.Random(2)]
    ]
    assert agreements == sorted(agreements, reverse=True)
    assert agreements[0] > 0.99 > agreements[1] > 0.8 > agreements[2]
