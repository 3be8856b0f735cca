"""The choice of logged prompts stands for all of the log's tokens."""

from collections import Counter

from draftworth.importing.choosing import chosen_prompts
from draftworth.records.logged_traffic import PromptForecast


def forecasts(*tokens_and_steps: tuple[int, int]) -> list[PromptForecast]:
    return [
        PromptForecast(prompt_class="chat", case="log", id=str(i), tokens=tokens, steps=steps)
        for i, (tokens, steps) in enumerate(tokens_and_steps)
    ]


def test_each_part_of_the_forecasts_gives_one() -> None:
    log = forecasts(*((1000, 200 + number) for number in range(400)))
    for seed in range(20):
        drawn = sorted(prompt.steps_per_token for prompt in chosen_prompts(log, 20, seed=seed))
        parts = [int((steps * 1000 - 200) / 20 + 1e-6) for steps in drawn]
        assert parts == [*range(20)]


def test_prompts_are_chosen_in_proportion_to_tokens() -> None:
    log = forecasts(*((300 if number % 4 == 0 else 100, 50) for number in range(200)))
    counts = Counter(
        prompt.tokens for seed in range(100) for prompt in chosen_prompts(log, 20, seed=seed)
    )
    # A quarter of the prompts has half of the tokens.
    assert 0.45 < counts[300] / counts.total() < 0.55


def test_a_long_prompt_stands_for_several_parts() -> None:
    log = forecasts((5000, 50), *((100, 50) for _ in range(50)))
    chosen = chosen_prompts(log, 20, seed=0)
    assert sum(prompt.parts for prompt in chosen) == 20
    assert {p.tokens: p.parts for p in chosen}[5000] in (9, 10, 11)


def test_their_order_is_random_and_repeatable() -> None:
    log = forecasts(*((100, 50 + number) for number in range(100)))
    chosen = chosen_prompts(log, 20, seed=3)
    steps = [prompt.steps_per_token for prompt in chosen]
    assert steps not in (sorted(steps), sorted(steps, reverse=True))
    assert chosen == chosen_prompts(log[::-1], 20, seed=3) != chosen_prompts(log, 20, seed=4)
