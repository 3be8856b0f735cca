"""What a new experiment repeats of a run, and what it takes from the prompts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from draftworth.cli.new_experiment import NewExperiment, TrafficClass, new_experiment
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.records.prompt_files import Case, Prompt
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding
from tests.draftworth.report import runs, searches
from tests.support.blocks import each_request
from tests.support.serving_facts import make_serving_facts

ANSWERS = {
    "--name": "mine",
    "--region": "us-east-2",
    "--target": "Qwen/Qwen3-32B",
    "--draft": "Qwen/Qwen3-1.7B",
    "--zone": "us-east-2c",
    "--capacity": "spot",
    "--access-cidr": "",
    "--admin-arn": "",
    "--email": "",
    "--accelerator-budget-usd": "80",
}


def made(
    run: Run | None = None, *, answers: Mapping[str, str] = ANSWERS, max_tokens: int | None = None
) -> NewExperiment:
    prompt = Prompt(id="1", text_to_continue="x", max_tokens=max_tokens)
    cases = [Case(prompt_class="mine", name="count", prompts=(prompt,))]
    return new_experiment(answers, cases=cases, run=run, price=None, prompts_dir="prompts")


def run_of(*loads: Load) -> Run:
    blocks = [
        runs.make_plain_block(number, "structured", load=load)
        for number, load in enumerate(loads, start=1)
    ]
    return runs.make_run(blocks=tuple(blocks))


def test_without_a_run_the_published_pair_is_served() -> None:
    servers = made().servers
    assert made().serves_published_pair
    assert [variant.draft.name for variant in servers.variants] == ["Qwen/Qwen3-1.7B"]
    assert None not in (servers.target.revision, servers.variants[0].draft.revision)
    assert (servers.max_model_len, servers.slot_devices, servers.instance_type) == (None,) * 3


@pytest.mark.parametrize(("max_tokens", "output_tokens"), [(None, 600), (900, 900)])
def test_prompts_limit_answers_without_a_run(max_tokens: int | None, output_tokens: int) -> None:
    traffic = made(max_tokens=max_tokens).traffic
    assert traffic.output_tokens == output_tokens
    assert traffic.classes == (TrafficClass(name="mine"),)
    assert (*traffic.concurrency, *traffic.requests_per_second, *traffic.input_lengths) == ()
    assert traffic.longest_prompt is None


@pytest.mark.parametrize(
    ("loads", "concurrency", "rates"),
    [
        ([ConcurrencyLoad(concurrency=n) for n in (16, 2, 16)], (2, 16), ()),
        ([PoissonLoad(requests_per_second=n) for n in (2.5, 0.5, 2.5)], (), (0.5, 2.5)),
    ],
)
def test_each_load_is_measured_once_again(
    loads: list[Load], concurrency: tuple[int, ...], rates: tuple[float, ...]
) -> None:
    traffic = made(run_of(*loads)).traffic
    assert (traffic.concurrency, traffic.requests_per_second) == (concurrency, rates)
    # The prompts kept their lengths, so the longest has the room.
    assert (traffic.input_lengths, traffic.longest_prompt) == ((), 64)
    assert traffic.output_tokens == runs.TOKENS


def test_lengths_of_prompts_are_repeated() -> None:
    loads = (ConcurrencyLoad(concurrency=1, input_tokens=n) for n in (2000, 500))
    traffic = made(run_of(*loads)).traffic
    assert (traffic.input_lengths, traffic.longest_prompt) == ((500, 2000), None)


def test_a_run_without_counts_limits_nothing() -> None:
    run = run_of(ConcurrencyLoad(concurrency=4))
    blocks = (
        each_request(
            block, lambda r: replace(r, number_input_tokens=None, number_output_tokens=None)
        )
        for block in run.blocks
    )
    traffic = made(replace(run, blocks=tuple(blocks)), max_tokens=70).traffic
    assert (traffic.longest_prompt, traffic.output_tokens) == (None, 70)


@pytest.mark.parametrize(
    ("shares", "weights"),
    [
        ({"structured": 1 / 3, "open_ended": 2 / 3}, {"structured": 33.3, "open_ended": 66.7}),
        ({"structured": 0.5, "open_ended": 0.5}, {"structured": None, "open_ended": None}),
        ({}, {"structured": None, "open_ended": None}),
    ],
)
def test_unequal_shares_are_weights_in_percent(
    shares: dict[str, float], weights: dict[str, float | None]
) -> None:
    classes = made(runs.make_run(class_weights=shares)).traffic.classes
    assert [c.name for c in classes] == ["open_ended", "structured"]
    assert {c.name: c.weight for c in classes} == weights
    assert {c.cases for c in classes} == {("count",)}


DECODING = {
    "baseline": Decoding(method="none"),
    "n-gram": Decoding(method="ngram", window=4),
    "a-k6": Decoding(method="fused_draft", window=6, draft="hub/a"),
    "b-k4": Decoding(method="fused_draft", window=4, draft="hub/b"),
}


@pytest.mark.parametrize(("best", "names"), [("a-k6", ["a-k6"]), ("", ["a-k6", "b-k4"])])
def test_of_a_search_only_the_best_is_repeated(best: str, names: list[str]) -> None:
    serving = make_serving_facts(decoding=DECODING, target_model="hub/target")
    search = searches.make_search_result(best=best)
    servers = made(replace(runs.make_run(serving=serving), search=search)).servers
    assert [variant.name for variant in servers.variants] == names
    # Only the user knows which commits of these models are meant.
    assert (servers.target.revision, servers.variants[0].draft.revision) == (None, None)


def test_servers_without_neuron_devices_are_not_repeated() -> None:
    serving = make_serving_facts(decoding=DECODING, platform="cpu")
    run = replace(runs.make_run(serving=serving), search=searches.make_search_result(best="a-k6"))
    experiment = made(run)
    assert (experiment.servers, experiment.serves_published_pair) == (made().servers, True)
    assert experiment.run_id == run.result.run_id


def test_a_budget_that_is_no_number_stays_text() -> None:
    assert made().aws.budget_usd == 80.0
    answers = {**ANSWERS, "--accelerator-budget-usd": "much"}
    assert made(answers=answers).aws.budget_usd == "much"
