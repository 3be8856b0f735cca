"""A schedule of windows in the arguments of `vllm serve`."""

from __future__ import annotations

import json

from draftworth.experiment.catalog import catalog
from draftworth.serving.command import with_windows

SCHEDULE = ((1, 2, 3), (3, 4, 7), (5, 8, 0))


def test_the_engine_gets_the_schedule_and_room_for_its_largest_window() -> None:
    given = ["/models/target", '--speculative-config={"model":"/models/draft"}', "--port=8000"]
    first, flag, last = with_windows(given, "windows", SCHEDULE)
    assert (first, last) == ("/models/target", "--port=8000")
    assert json.loads(flag.partition("=")[2]) == {
        "model": "/models/draft",
        "num_speculative_tokens": 7,
        "windows": [[1, 2, 3], [3, 4, 7], [5, 8, 0]],
    }


def test_a_baseline_gets_none() -> None:
    assert with_windows(["/models/target"], "windows", SCHEDULE) == ("/models/target",)


def test_no_release_for_neuron_is_said_to_heed_a_schedule() -> None:
    releases = catalog().releases.values()
    assert {r.platform for r in releases if r.window_schedule} == {"local"}
