"""Servers of a rehearsal, started and stopped as a run asks, with processes that stand for vLLM."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from draftworth.measuring.run_specification import Endpoint
from rehearsal.engine import EngineServer
from rehearsal.servers import ProcessServers
from tests.rehearsal.test_engine import (
    MakeServer,
    assert_all_ended,
    is_running,
    make_server,
    process_ids,
)

__all__ = ["make_server"]


def endpoint(name: str) -> Endpoint:
    return Endpoint(
        variant=name, base_url="", max_tokens_per_step=1, is_baseline=False, slot=0, server=name
    )


@pytest.fixture
def manager(make_server: MakeServer) -> Iterator[Callable[..., ProcessServers]]:
    made: list[EngineServer] = []

    def make(**behaviours: str) -> ProcessServers:
        by_name = {name: make_server(how, name=name) for name, how in behaviours.items()}
        made.extend(by_name.values())
        return ProcessServers(by_name=by_name)

    yield make
    for server in made:
        server.stop()


def run_only(servers: ProcessServers, *names: str, restart: bool = False) -> None:
    asyncio.run(servers.run_only([endpoint(name) for name in names], restart=restart))


def running(folder: Path, name: str) -> bool:
    return all(is_running(pid) for pid in process_ids(folder, name))


def test_what_is_wanted_runs_and_nothing_else(
    manager: Callable[..., ProcessServers], tmp_path: Path
) -> None:
    servers = manager(a="healthy", b="healthy")

    run_only(servers, "a")
    assert servers.by_name["a"].is_ready()
    first = process_ids(tmp_path, "a")
    run_only(servers, "a", "b")

    assert process_ids(tmp_path, "a") == first, "was started again"
    assert running(tmp_path, "b")
    run_only(servers, "b")
    assert_all_ended(first)
    assert running(tmp_path, "b")


def test_a_restart_starts_those_that_ran_as_well(
    manager: Callable[..., ProcessServers], tmp_path: Path
) -> None:
    servers = manager(a="healthy")
    run_only(servers, "a")
    before = process_ids(tmp_path, "a")

    run_only(servers, "a", restart=True)

    assert_all_ended(before)
    assert running(tmp_path, "a")
    assert process_ids(tmp_path, "a") != before
