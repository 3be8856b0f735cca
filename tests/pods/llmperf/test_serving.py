"""After the run, in the measuring Job's pod: the Service, the looks, and what a signal does."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from draftworth.errors import UserInputError
from draftworth.measuring.job import SERVING_POD_SECONDS
from draftworth.measuring.run_specification import RunSpec, WinnerStays
from draftworth.measuring.servers import ServersError
from draftworth.measuring.sink import FolderSink, SinkError
from draftworth.records.codec import dump_record, load_record
from draftworth.records.live import KeptWinner, ServingOver, kept_key, over_key
from draftworth.records.serving_limits import ServingLimits
from pods.llmperf.kubernetes_servers import KubernetesApi, KubernetesServers, WinnerService
from pods.llmperf.mounted_file import read_again
from pods.llmperf.s3_sink import S3Sink
from pods.llmperf.serving import Serving, read_limits, top_level
from tests.draftworth.measuring.specifications import endpoint, specification
from tests.pods.llmperf.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes
from tests.support.stream_server import Request, Step, completion, plain, stream_server

RUN_ID = "llmperf-x-00000000-01234567"
ONE = {
    "app.kubernetes.io/component": "serving",
    "app.kubernetes.io/instance": "k7-1",
    "draftworth/variant": None,
}

NOWHERE = {**ONE, "app.kubernetes.io/instance": "none"}


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[StandInKubernetes]:
    """The winner runs alone."""
    made = StandInKubernetes(replicas={"baseline-0": 0, "k7-1": 1}, selectors={"winner": None})
    with stand_in_kubernetes(tmp_path, made):
        yield made


def api_of(kubernetes: StandInKubernetes) -> KubernetesApi:
    return KubernetesApi(url=kubernetes.url, folder=kubernetes.folder, pause_seconds=0.001)


def winner(**overrides: Any) -> KeptWinner:
    fields: dict[str, Any] = {
        "run_id": RUN_ID,
        "variant": "k7",
        "servers": ("k7-1",),
        "since_unix_s": 0.0,
    }
    return KeptWinner(**{**fields, **overrides})


def spec_of(url: str) -> RunSpec:
    servers = (endpoint("baseline", 0), endpoint("k7", 1, base_url=url))
    return specification(servers, after=WinnerStays(replicas="one"), ready_deadline_seconds=0.05)


def limits(**overrides: Any) -> ServingLimits:
    fields: dict[str, Any] = {
        "serve_until_unix_s": None,
        "budget_usd": 1e9,
        "usd_per_hour": {"baseline": 1.0, "k7": 1.0},
        "probe_seconds": 3600.0,
    }
    return ServingLimits(**{**fields, **overrides})


@dataclass
class Pod:
    """A pod whose run is over. spent: the winner's budget is, after a first look."""

    folder: Path
    kubernetes: StandInKubernetes
    log: list[str] = field(default_factory=list)
    limits: ServingLimits = field(default_factory=limits)

    def go_on(self, url: str, **overrides: Any) -> None:
        spec = spec_of(url)
        api = api_of(self.kubernetes)
        names = tuple(e.server for e in spec.endpoints)
        Serving(
            spec=spec,
            results=overrides.pop("results", FolderSink(self.folder)),
            limits=lambda: self.limits,
            servers=KubernetesServers(
                api=api, names=names, log=self.log.append, stopped_poll_seconds=0.001
            ),
            service=WinnerService(api=api),
            server_state=lambda _: None,
            log=self.log.append,
            **overrides,
        ).go_on(RUN_ID)

    def keep(self) -> None:
        FolderSink(self.folder).write(kept_key(RUN_ID), dump_record(winner()))

    @property
    def over(self) -> ServingOver:
        return load_record(ServingOver, FolderSink(self.folder).read(over_key(RUN_ID)))

    @property
    def looks(self) -> list[str]:
        return sorted(p.name for p in (self.folder / "live" / RUN_ID).glob("*"))


class FullFolder(FolderSink):
    """Nothing can be written."""

    def write(self, name: str, data: bytes) -> None:
        raise SinkError(f"{name}: no space left, {len(data)} bytes")


@pytest.fixture
def pod(tmp_path: Path, kubernetes: StandInKubernetes) -> Pod:
    return Pod(tmp_path / "out", kubernetes)


def served(request: Request) -> Iterable[Step]:
    return plain("200 OK", b"") if request.method == "GET" else completion(1, 2)


def test_without_a_winner_there_is_nothing_to_do(pod: Pod) -> None:
    FolderSink(pod.folder).write(f"{RUN_ID}/run.json", b"{}")
    pod.go_on("http://nobody")
    assert (pod.looks, pod.log, pod.kubernetes.asked) == ([], [], [])


def test_clients_are_led_to_it_until_its_money_is_spent_and_then_the_servers_go_home(
    pod: Pod,
) -> None:
    pod.keep()
    seen: list[Any] = []

    def script(request: Request) -> Iterable[Step]:
        if request.method == "POST":
            seen.append(pod.kubernetes.selectors["winner"])
            pod.limits = limits(budget_usd=1e-9)
        return served(request)

    with stream_server(script) as server:
        pod.go_on(server.base_url)

    assert pod.looks == ["000001.json"]
    assert seen == [ONE]
    assert pod.kubernetes.selectors == {"winner": NOWHERE}
    assert pod.kubernetes.replicas == {"baseline-0": 1, "k7-1": 1}
    assert any(line.startswith("k7 goes: the budget of serving is spent") for line in pod.log)
    assert pod.over.reason.startswith("the budget of serving is spent")


def test_a_server_that_does_not_come_back_is_told_and_the_next_pod_waits_for_it_no_more(
    pod: Pod,
) -> None:
    pod.keep()
    pod.go_on("http://127.0.0.1:9")
    assert pod.over.reason.startswith("its server is gone")
    pod.kubernetes.selectors["winner"] = ONE
    pod.log.clear()
    pod.go_on("http://127.0.0.1:9")
    assert pod.kubernetes.selectors["winner"] == NOWHERE
    assert not any("goes:" in line for line in pod.log)


def test_where_it_cannot_be_told_clients_are_led_there_until_another_pod_tells_it(pod: Pod) -> None:
    pod.keep()
    pod.limits = limits(budget_usd=1e-9)
    with stream_server(served) as server, pytest.raises(SinkError):
        pod.go_on(server.base_url, results=FullFolder(pod.folder))
    assert pod.kubernetes.selectors["winner"] == ONE


def test_a_service_that_cannot_be_changed_ends_nothing(pod: Pod) -> None:
    pod.keep()
    del pod.kubernetes.selectors["winner"]
    pod.limits = limits(budget_usd=1e-9)
    with stream_server(served) as server:
        pod.go_on(server.base_url)
    (line, *_) = pod.log
    assert "clients do not find the winner by its Service: PATCH" in line
    assert "kubectl get services" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_the_winner_to_the_next_pod(pod: Pod, number: signal.Signals) -> None:
    pod.keep()

    def script(request: Request) -> Iterable[Step]:
        if request.method == "POST":
            os.kill(os.getpid(), number)
        return served(request)

    with stream_server(script) as server:
        with pytest.raises(asyncio.CancelledError):
            pod.go_on(server.base_url)
        assert pod.kubernetes.selectors["winner"] == ONE, "clients go on while the pod changes"
        assert pod.kubernetes.replicas == {"baseline-0": 0, "k7-1": 1}
        pod.limits = limits(budget_usd=1e-9)
        pod.go_on(server.base_url)
    assert pod.kubernetes.selectors["winner"] == NOWHERE


def test_a_pod_that_has_lived_long_enough_leaves_it_to_the_next_one(pod: Pod) -> None:
    pod.keep()
    with stream_server(served) as server, pytest.raises(asyncio.CancelledError):
        pod.go_on(server.base_url, pod_seconds=0.2)
    assert pod.kubernetes.selectors["winner"] == ONE


def test_what_its_run_took_is_part_of_the_pods_life(pod: Pod) -> None:
    pod.keep()
    with stream_server(served) as server, pytest.raises(asyncio.CancelledError):
        pod.go_on(server.base_url, started_s=time.monotonic() - SERVING_POD_SECONDS)
    assert pod.kubernetes.selectors["winner"] == ONE


def test_in_every_slot_the_variant_is_selected(kubernetes: StandInKubernetes) -> None:
    both = winner(servers=("k7-1", "k7-0"))
    WinnerService(api=api_of(kubernetes)).select(both)
    assert kubernetes.selectors["winner"] == {
        **ONE,
        "app.kubernetes.io/instance": None,
        "draftworth/variant": "k7",
    }


def test_a_right_that_is_missing_is_named(kubernetes: StandInKubernetes) -> None:
    (kubernetes.folder / "token").write_text("another")
    with pytest.raises(ServersError, match=r"`patch` on services of winner.*role `scale-servers`"):
        WinnerService(api=api_of(kubernetes)).select(None)


def test_where_nothing_stays_there_is_no_service() -> None:
    WinnerService(api=None).select(winner())


def test_limits_are_read_again_and_a_damaged_file_leaves_them_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    path.write_bytes(dump_record(limits(budget_usd=1.0)))
    read = read_again(path, read_limits)
    path.write_bytes(dump_record(limits(budget_usd=2.0)))
    assert read().budget_usd == 2.0
    path.write_text("{")
    assert read().budget_usd == 2.0


def test_limits_that_cannot_be_read_at_the_start_are_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="no limits of serving"):
        read_again(tmp_path / "none.json", read_limits)


def test_a_limit_that_is_no_amount_is_refused() -> None:
    with pytest.raises(ValueError, match="budget_usd: given 0, allowed: above 0"):
        limits(budget_usd=0)
    with pytest.raises(ValueError, match=r"usd_per_hour\.k7: given -1"):
        replace(limits(), usd_per_hour={"k7": -1})


def test_in_a_bucket_looks_lie_beside_the_runs() -> None:
    client = boto3.client("s3", region_name="us-east-2")
    top = top_level(S3Sink(client, bucket="b", prefix="runs"))
    assert isinstance(top, S3Sink)
    assert (top.bucket, top.prefix) == ("b", "")
