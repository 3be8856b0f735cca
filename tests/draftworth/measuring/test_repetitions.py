"""Repetitions: which servers run when, what is recorded, and what happens if a server is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftworth.measuring.result_files import FolderSink
from draftworth.records.findings import VERDICT_FILE
from draftworth.records.run_folder import Run, read_run
from tests.draftworth.measuring.fake_engine import (
    RUN_ID,
    FakeEngine,
    RecordingServers,
    history,
    run_pod,
    terminate,
)
from tests.support.runners import make_runner
from tests.support.specifications import endpoint, sampling, specification
from tests.support.stream_server import StreamServer

FOUR_ROUNDS = sampling(min_requests=16, max_requests=16)


def run(
    url: str,
    folder: Path,
    servers: RecordingServers,
    *,
    happen: Callable[[], object] | None = None,
    at: int = 0,
    **fields: Any,
) -> Run | None:
    """Let one pod measure a run, and read the run; None if the pod was terminated."""
    endpoints = tuple(
        endpoint(variant, slot, base_url=f"{url}/{variant}/..")
        for variant, slot in (("baseline", 0), ("k7", 1), ("baseline", 1), ("k7", 0))
    )
    made = make_runner(
        specification(endpoints, **fields),
        FolderSink(folder),
        run_id=RUN_ID,
        history=history(folder),
        engine=FakeEngine(happen, at=at),
        servers=servers,
    )
    return read_run(folder / RUN_ID) if run_pod(made) else None


def what(run: Run) -> list[tuple[int, int, str, int | None]]:
    return [(b.repetition, b.round, b.variant, b.slot) for b in run.blocks]


def test_blocks_hold_repetition_and_slot_after_new_starts(
    healthy: StreamServer, tmp_path: Path
) -> None:
    servers = RecordingServers()
    measured = run(healthy.base_url, tmp_path, servers, repetitions=2, sampling=FOUR_ROUNDS)

    assert measured
    assert sorted(what(measured)) == [
        *((1, 1, "baseline", 0), (1, 1, "k7", 1), (1, 2, "baseline", 0), (1, 2, "k7", 1)),
        *((2, 3, "baseline", 1), (2, 3, "k7", 0), (2, 4, "baseline", 1), (2, 4, "k7", 0)),
    ]
    assert [b.round for b in measured.blocks] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert servers.calls == [
        (("baseline-0", "k7-1"), False),
        (("baseline-1", "k7-0"), True),
    ]
    assert measured.result.repetitions == 2
    assert measured.result.shortened == ""


def test_control_is_a_variant_on_two_new_servers(healthy: StreamServer, tmp_path: Path) -> None:
    """The control runs in the baseline's other slot (the devices of one server), not the variant.

    The first server's name has the slot's number: `k7-1` is the variant `k7` in slot 1.
    """
    servers = RecordingServers()
    measured = run(healthy.base_url, tmp_path, servers, repetitions=2, control=True)

    assert measured
    assert servers.calls == [
        (("baseline-0", "k7-1"), False),
        (("baseline-0", "baseline-1"), True),
        (("baseline-1", "k7-0"), True),
        (("baseline-1", "baseline-0"), True),
    ]
    assert measured.result.variants == ("baseline", "k7", "control")
    places = {(b.repetition, b.slot) for b in measured.blocks if b.variant == "control"}
    assert places == {(1, 1), (2, 0)}
    pairs = {(b.round, b.variant) for b in measured.blocks}
    assert {n for n, v in pairs if v == "control"}.isdisjoint(n for n, v in pairs if v == "k7")


@pytest.mark.parametrize(
    "options",
    [
        {"repetitions": 2, "sampling": FOUR_ROUNDS},
        {"control": True, "sampling": sampling(max_requests=8)},
    ],
)
def test_a_run_continues_in_its_stage_without_restart(
    healthy: StreamServer, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Each stage (a part of a run with the same servers) has two rounds of two blocks."""
    whole = run(healthy.base_url, tmp_path / "whole", RecordingServers(), **options)
    for at, restarts in ((2, [False, True]), (4, [False, True]), (5, [True]), (6, [False])):
        folder = tmp_path / str(at)
        cut = run(healthy.base_url, folder, RecordingServers(), happen=terminate, at=at, **options)
        assert cut is None
        servers = RecordingServers()
        measured = run(healthy.base_url, folder, servers, **options)

        assert measured
        assert whole
        assert what(measured) == what(whole)
        assert [restart for _, restart in servers.calls] == restarts, at


def test_a_repetition_that_cannot_start_shortens_the_run(
    healthy: StreamServer, tmp_path: Path
) -> None:
    measured = run(healthy.base_url, tmp_path, RecordingServers(failing=[2]), repetitions=2)

    assert measured
    assert measured.result.status == "complete"
    assert measured.result.shortened == "repetition 2: the API server answers HTTP 403"
    assert {b.repetition for b in measured.blocks} == {1}
    assert (tmp_path / RUN_ID / VERDICT_FILE).exists()


def test_a_control_counts_although_a_later_one_failed(
    healthy: StreamServer, tmp_path: Path
) -> None:
    servers = RecordingServers(failing=[3])
    measured = run(healthy.base_url, tmp_path, servers, repetitions=2, control=True)

    assert measured
    assert measured.result.shortened.startswith("repetition 2: ")
    assert measured.result.variants == ("baseline", "k7", "control")
    assert measured.result.max_tokens_per_step == {"baseline": 1, "k7": 8, "control": 1}


def test_a_run_fails_when_its_first_servers_do(healthy: StreamServer, tmp_path: Path) -> None:
    measured = run(healthy.base_url, tmp_path, RecordingServers(failing=[1]), repetitions=2)

    assert measured
    assert measured.result.status == "failed"
    assert "HTTP 403" in measured.result.reason
    assert measured.result.shortened == ""


def test_each_repetition_measures_other_prompts(healthy: StreamServer, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "repetitions": 2,
        "sampling": sampling(min_requests=8, max_requests=8),
    }
    measured = run(healthy.base_url, tmp_path, RecordingServers(), **options)

    assert measured
    sent = [
        {r.prompt_id for b in measured.blocks if b.repetition == n for r in b.requests}
        for n in (1, 2)
    ]
    assert sent[0].isdisjoint(sent[1])
