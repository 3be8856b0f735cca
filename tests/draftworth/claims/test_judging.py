"""Each answer to a claim, on runs in which the truth is planted."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.claims.judging import ClaimsFile, judge, read_claims
from draftworth.decision.facts import facts_of
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.run_folder import Run
from tests.conftest import ROOT
from tests.draftworth.claims.planted import AS_PUBLISHED, WITH_SMALL, make_planted_run
from tests.draftworth.report.searches import make_search_run
from tests.support.blocks import each_request, make_failed_record
from tests.support.serving_facts import make_serving_facts

PUBLISHED = read_claims(ROOT / "experiments/claims/published.yaml")
LETTERS = {"reproduced": "r", "not reproduced": "n", "inconclusive": "i", "not comparable": "-"}
# Runs, and the answers (see `LETTERS`) to the claims of published.yaml in the file's order.
PLANTED = {
    "as published": (make_planted_run(), "rrrrr--"),
    "a slow draft": (make_planted_run({**AS_PUBLISHED, ("phrases", "k7"): 0.03}), "nnrrr--"),
    "slow sonnets": (make_planted_run({**AS_PUBLISHED, ("sonnets", "k7"): 0.06}), "rrnrn--"),
    "prompts that differ by half": (make_planted_run(apart=0.5), "riirr--"),
    "one prompt": (make_planted_run(prompts=1), "iiiii--"),
    "a small draft as published": (make_planted_run(WITH_SMALL, small_yields=3), "rrrrrr-"),
    "a small draft that is as good": (make_planted_run(WITH_SMALL), "rrrrrn-"),
    "a failed run": (make_planted_run(status="failed", reason="no server"), "-------"),
}


def answered(run: Run, claims: ClaimsFile = PUBLISHED) -> list[tuple[str, str]]:
    return [(judged.answer, judged.sentence) for judged in judge(claims, facts_of(run, {}))]


def claims_of(**overrides: Any) -> ClaimsFile:
    """Return a file with one claim, which the planted run reproduces."""
    fields = {"claim": "3x", "source": "a paper", "figure": "itl_speedup", "value": 3}
    about = {"tolerance_percent": 20, "prompt_class": "phrases", "window": 7}
    return ClaimsFile.model_validate({"claims": ({**fields, **about, **overrides},)})


@pytest.mark.parametrize("name", PLANTED)
def test_the_answers_are_those_planted(name: str) -> None:
    run, expected = PLANTED[name]
    assert "".join(LETTERS[answer] for answer, _ in answered(run)) == expected


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"serving": make_serving_facts(target_model="other/model")}, 'target is "other/model"'),
        ({"serving": make_serving_facts(release="cpu")}, 'release is "cpu", not "neuron-2.26.1"'),
        ({"serving": None}, "release is null, not"),
        ({"temperature": 0.7}, "temperature is 0.7, not 0"),
        ({"load": ConcurrencyLoad(concurrency=1)}, "concurrency is 1, not 4"),
    ],
)
def test_a_run_of_something_else_is_not_comparable(overrides: Any, words: str) -> None:
    for answer, sentence in answered(make_planted_run(**overrides))[:6]:
        assert (answer, words in sentence) == ("not comparable", True), sentence


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"input_tokens": (60, 64)}, ": reproduced: "),
        ({"input_tokens": (65, 70)}, "input_tokens is [64.0], not [65, 70]"),
        ({"output_tokens": (100, 599)}, "output_tokens is [600.0], not"),
        ({"prompt_class": "other"}, 'prompt_class is "phrases", not "other"'),
        ({"prompt_class": None}, "not comparable: it may be about phrases at c4, k7 or sonnets"),
        ({"relation": "at_most", "value": 3}, ": reproduced: "),
        ({"relation": "at_most", "value": 2}, ": not reproduced: "),
        ({"relation": "at_least", "value": 3.5}, ": reproduced: "),
        ({"relation": "at_least", "value": 4}, ": not reproduced: "),
        ({"figure": "tokens_per_step_mean", "value": 6, "tolerance_percent": 1}, ": reproduced: "),
        (
            {"figure": "acceptance_rate_mean", "value": 5 / 6, "tolerance_percent": 1},
            ": reproduced: ",
        ),
        ({"figure": "itl_speedpu"}, "not comparable: the run failed, or has no such figure"),
        ({"figure": "judgement"}, "not comparable: the run failed, or has no such figure"),
    ],
)
def test_conditions_and_relations(overrides: dict[str, Any], words: str) -> None:
    assert words in answered(make_planted_run(), claims_of(**overrides))[0][1]


def test_servers_without_description_match_by_name() -> None:
    run = make_planted_run(serving=None, class_weights={})
    by_name = claims_of(variant="k7", window=None, target="Qwen/Qwen3-32B")
    assert answered(run, by_name)[0][0] == "reproduced"
    assert "window is null, not 7" in answered(run, claims_of())[0][1]


def test_only_easy_requests_left_reproduce_nothing() -> None:
    run, failed = make_planted_run(), make_failed_record(7)
    some = (replace(b, requests=(*b.requests[:6], failed)) for b in run.blocks if b.variant == "k7")
    plain = (block for block in run.blocks if block.variant != "k7")
    answer, sentence = answered(replace(run, blocks=(*plain, *some)), claims_of())[0]
    assert answer == "inconclusive"
    assert "those that are left may be the easy ones" in sentence


def test_prompts_from_a_cache_reproduce_nothing() -> None:
    """Only where the run is about new prompts: what a cache saves on purpose may be claimed."""
    run = make_planted_run()
    blocks = tuple(
        each_request(b, lambda r: replace(r, cached_input_tokens=48)) if b.variant == "k7" else b
        for b in run.blocks
    )
    warm = replace(run.result, prompt_cache="warm")
    answer, sentence = answered(replace(run, blocks=blocks), claims_of())[0]
    assert answer == "inconclusive"
    assert "75.0% of their tokens came from its prefix cache" in sentence
    assert answered(replace(run, blocks=blocks, result=warm), claims_of())[0][0] == "reproduced"


def test_doubts_about_the_mix_hold_for_classes() -> None:
    """The sonnets alone show no cache, but their server has one."""
    run = make_planted_run()
    blocks = tuple(
        each_request(b, lambda r: replace(r, cached_input_tokens=48))
        if (b.variant, b.prompt_class) == ("k7", "phrases")
        else b
        for b in run.blocks
    )
    about = {"prompt_class": "sonnets", "value": 1}
    assert answered(run, claims_of(**about))[0][0] == "reproduced"
    assert answered(replace(run, blocks=blocks), claims_of(**about))[0][0] == "inconclusive"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"value": 7, "tolerance_percent": 20}, "reproduced: best_window is 6 (6 to 8)"),
        ({"value": 6}, "inconclusive"),  # windows 6 and 8 cost alike
        ({"value": 4}, "not reproduced"),
        ({"value": 6, "windows": (4, 9)}, "windows is [4, 6, 8], not [4, 9]"),
    ],
)
def test_best_window_may_be_any_with_overlapping_cost(
    overrides: dict[str, Any], words: str
) -> None:
    about = {
        "prompt_class": "traffic mix",
        "window": None,
        "windows": (4, 6),
        "tolerance_percent": 1,
    }
    claims = claims_of(figure="best_window", **{**about, **overrides})
    assert words in answered(make_search_run(), claims)[0][1]
