"""The canary of the measuring Job's paths, against a listener and a stand-in for Kubernetes."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from draftworth.records.codec import load_record
from draftworth.records.deployment import PATHS, CanaryReport, canary_key
from pods.canary import paths
from pods.measuring import kubernetes_servers
from tests.pods.canary.listening import listening
from tests.pods.measuring.stand_in_kubernetes import (
    StandInKubernetes,
    stand_in_kubernetes,
    status_of,
)
from tests.support.emulator import emulated_account

pytestmark = pytest.mark.emulator
RESULTS, JOB, SERVER = "results", "llmperf-test-0123abcd", "vllm-baseline"


@dataclass
class Place:
    """An emulated bucket, a listener's URL, a stand-in for Kubernetes, and the canary's runs."""

    s3: Any
    listener: str
    kubernetes: StandInKubernetes

    def run(self, *more: str) -> int:
        address = urlsplit(self.kubernetes.url)
        variables = {
            kubernetes_servers.HOST_VARIABLE: str(address.hostname),
            kubernetes_servers.PORT_VARIABLE: str(address.port),
        }
        common = ("--job", JOB, "--results", RESULTS, "--listener", self.listener)
        limits = ("--settle-seconds=0", "--patience-seconds=0", "--poll-seconds=0.01")
        return paths.main([*common, *limits, *more], variables)

    def report(self) -> CanaryReport:
        body = self.s3.get_object(Bucket=RESULTS, Key=canary_key(JOB, PATHS))["Body"]
        return load_record(CanaryReport, body.read())

    def failure(self, *more: str) -> str:
        """Run the canary, which must fail; return the text of its report."""
        assert self.run(*more) == 1
        assert not self.report().ok
        return self.report().text


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    endpoint = emulated_account()
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr(paths, "end_at_sigterm", lambda: None)
    monkeypatch.setattr(kubernetes_servers, "POD_FOLDER", tmp_path)
    client: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-2")
    where = {"LocationConstraint": "us-east-2"}
    client.create_bucket(Bucket=RESULTS, CreateBucketConfiguration=where)
    api = StandInKubernetes(replicas={SERVER: 1})
    with listening() as (_, url), stand_in_kubernetes(tmp_path, api):
        yield Place(s3=client, listener=url, kubernetes=api)
    client.close()


@pytest.mark.parametrize("replicas", [0, 1])
def test_open_paths_are_reported_and_nothing_changes(place: Place, replicas: int) -> None:
    place.kubernetes.replicas[SERVER] = replicas
    assert place.run("--deployment", SERVER) == 0
    report = place.report()
    assert (report.ok, report.job_name, report.variant) == (True, JOB, PATHS)
    assert place.kubernetes.replicas == {SERVER: replicas}
    assert len(place.kubernetes.requests) == 1
    assert any(f"GET {place.listener}: HTTP 200" in line for line in report.last_lines)
    assert any(f"the scale of {SERVER}" in line for line in report.last_lines)


def test_where_servers_stay_kubernetes_is_left_alone(place: Place) -> None:
    assert place.run() == 0
    assert place.kubernetes.requests == []


def test_an_unreachable_listener_fails_with_next_step(place: Place) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place.listener = f"http://127.0.0.1:{closed.getsockname()[1]}"
        text = place.failure("--deployment", SERVER)
    assert f"GET {place.listener}: no answer: " in text
    assert "`load-generator` and `serving`" in text
    assert "next: " in text
    assert "aws.pins.add_ons" in text


def test_a_listener_that_says_nothing_fails(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place.listener = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "no answer: timed out" in place.failure()


def test_a_refusal_of_kubernetes_fails(place: Place) -> None:
    place.kubernetes.trouble = lambda _: (403, status_of("may not patch"))
    text = place.failure("--deployment", SERVER)
    assert "with an empty patch: HTTP 403: may not patch" in text
    assert place.kubernetes.replicas == {SERVER: 1}


def test_a_listener_that_starts_later_is_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_url = place.listener
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place.listener = f"http://127.0.0.1:{closed.getsockname()[1]}"
        now_open = urlsplit(open_url)

        pauses: list[float] = []

        def start(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:  # the first pause is before the first try
                monkeypatch.setattr(paths, "urlsplit", lambda _: now_open)

        monkeypatch.setattr("pods.canary.paths.time.sleep", start)
        assert place.run("--patience-seconds", "1e9") == 0
    assert len(pauses) == 2


def test_the_policies_have_time_to_hold(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("pods.canary.paths.time.sleep", pauses.append)
    assert place.run("--settle-seconds", "30") == 0
    assert pauses == [30]


def test_an_unreachable_results_bucket_is_logged(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.s3.delete_object(Bucket=RESULTS, Key=canary_key(JOB, PATHS))
    place.s3.delete_bucket(Bucket=RESULTS)
    assert place.run() == 1
    assert "the results bucket cannot be reached" in capsys.readouterr().err
