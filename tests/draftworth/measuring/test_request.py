"""Requests' seeds: equal for both variants, and another one when a prompt is sent again."""

from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.measuring.streamed_request import request_seed
from draftworth.records.codec import INT64
from draftworth.records.run_folder import read_run
from tests.support.stand_in_runs import case, run, server, spec
from tests.support.stream_server import StreamServer, stream_server

SHAPE = spec("http://127.0.0.1:1", cases=[case("count")]).shape


def seeds_sent(sent_to: StreamServer) -> list[tuple[str, int]]:
    bodies = [request.json for request in sent_to.requests if request.method == "POST"]
    return [(body["messages"][0]["content"], body["seed"]) for body in bodies]


def test_both_variants_get_the_same_recorded_seeds(tmp_path: Path) -> None:
    """Two rounds send each of the case's three prompts twice."""
    with stream_server(server(1, 1)) as plain, stream_server(server(2)) as drafting:
        run_spec = spec(
            *(plain.base_url, drafting.base_url),
            cases=[case("count")],
            requests=3,
            max_rounds=2,
            target_width=0.0001,
        )
        run(replace(run_spec, shape=replace(run_spec.shape, temperature=0.7)), tmp_path)

    measured = read_run(tmp_path / "test-1")
    by_variant = {
        name: [
            (r.prompt_id, r.seed) for b in measured.blocks if b.variant == name for r in b.requests
        ]
        for name in ("baseline", "k7")
    }
    assert by_variant["baseline"] == by_variant["k7"]
    seeds = {seed for _, seed in by_variant["k7"]}
    assert len(seeds) == 6, "a prompt that comes again has another seed"
    recorded = {(prompt.replace("-", " "), seed) for prompt, seed in by_variant["k7"]}
    for stand_in in (plain, drafting):
        assert recorded <= set(seeds_sent(stand_in))
        assert {r.json["temperature"] for r in stand_in.requests if r.method == "POST"} == {0.7}
    assert measured.result.temperature == 0.7


def test_another_seed_of_the_workload_draws_other_seeds() -> None:
    one, same, other = (
        {request_seed(replace(SHAPE, seed=seed), place) for place in range(6)} for seed in (0, 0, 1)
    )
    assert one == same
    assert not one & other


@pytest.mark.parametrize("seed", [0, 1, -1, INT64[0], INT64[-1]])
@pytest.mark.parametrize("place", [-4, 0, 1, 100_000])
def test_a_seed_is_one_that_any_server_takes(seed: int, place: int) -> None:
    assert 0 <= request_seed(replace(SHAPE, seed=seed), place) < 2**31


@pytest.mark.parametrize("temperature", [-1.0, 0.001, 2.5])
def test_a_temperature_that_servers_change_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"temperature: given .*, allowed: 0, or 0.01 to 2"):
        replace(SHAPE, temperature=temperature)
