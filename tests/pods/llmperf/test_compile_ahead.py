"""Graphs that are asked for while others are measured: real S3 calls, a real HTTPS API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.errors import UserInputError
from draftworth.records.codec import load_record
from draftworth.records.unproven_graphs import WANTED_KEY, WantedGraphs
from pods.llmperf.compile_ahead import CompileAhead, CompileJob, compile_jobs
from pods.llmperf.kubernetes_servers import KubernetesApi
from tests.pods.llmperf.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes

pytestmark = pytest.mark.emulator
BUCKET, JOB = "results-111122223333", "llmperf-search-0a1b2c3d"
JOBS = {f"k{n}": CompileJob(key=f"{n:024x}", job_name=f"compile-k{n}") for n in (3, 5, 9)}


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[StandInKubernetes]:
    suspended = {job.job_name: True for job in JOBS.values()}
    made = StandInKubernetes(replicas={}, suspended=suspended)
    with stand_in_kubernetes(tmp_path, made):
        yield made


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-2")
        client.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
        )
        yield client


def asking(api: StandInKubernetes, s3: Any, *, now: float = 100.0, **settings: Any) -> CompileAhead:
    fields: dict[str, Any] = {"measuring_job": JOB, "log": lambda _: None, **settings}
    return CompileAhead(
        jobs=JOBS,
        api=KubernetesApi(url=api.url, folder=api.folder, pause_seconds=0.001),
        client=s3,
        bucket=BUCKET,
        clock=lambda: now,
        **fields,
    )


def wanted(s3: Any) -> WantedGraphs:
    body = s3.get_object(Bucket=BUCKET, Key=WANTED_KEY)["Body"]
    return load_record(WantedGraphs, body.read())


def test_jobs_go_on_and_the_controller_is_told_which(
    kubernetes: StandInKubernetes, s3: Any
) -> None:
    asking(kubernetes, s3)(["k5", "k3", "not-compiled-on-cpu"])

    assert kubernetes.suspended == {"compile-k3": False, "compile-k5": False, "compile-k9": True}
    told = wanted(s3)
    assert told.job_name == JOB
    assert told.since_unix_s == {JOBS["k3"].key: 100.0, JOBS["k5"].key: 100.0}


def test_what_was_asked_for_stays_so_also_by_an_earlier_pod(
    kubernetes: StandInKubernetes, s3: Any
) -> None:
    asking(kubernetes, s3)(["k5"])
    again = asking(kubernetes, s3, now=200.0)
    again(["k5", "k9"])
    again(["k5"])

    assert wanted(s3).since_unix_s == {JOBS["k5"].key: 100.0, JOBS["k9"].key: 200.0}


def test_what_another_job_wanted_is_forgotten(kubernetes: StandInKubernetes, s3: Any) -> None:
    asking(kubernetes, s3, measuring_job="another")(["k5"])
    asking(kubernetes, s3)(["k9"])

    assert [*wanted(s3).since_unix_s] == [JOBS["k9"].key]


def test_what_cannot_be_asked_for_is_a_line_in_the_log(
    kubernetes: StandInKubernetes, s3: Any
) -> None:
    lines: list[str] = []
    del kubernetes.suspended["compile-k5"]
    asking(kubernetes, s3, log=lines.append)(["k5"])

    (line,) = lines
    assert "graphs are not compiled ahead: ServersError" in line
    assert "jobs.batch" in line
    with pytest.raises(s3.exceptions.NoSuchKey):
        wanted(s3)


def test_a_right_that_is_missing_is_named_with_its_role(
    kubernetes: StandInKubernetes, s3: Any
) -> None:
    lines: list[str] = []
    (kubernetes.folder / "token").write_text("another")
    asking(kubernetes, s3, log=lines.append)(["k5"])
    (line,) = lines
    assert "`patch` on jobs of compile-k5" in line
    assert "role `resume-graph-compilers`" in line


def refuse(s3: Any, operation: str, code: str) -> None:
    """The next call is refused."""
    left = [{"Error": {"Code": code, "Message": "refused"}}]

    def respond(**_: Any) -> Any:
        return (SimpleNamespace(status_code=400), left.pop()) if left else None

    s3.meta.events.register_first(f"before-call.s3.{operation}", respond)


def test_what_the_controller_could_not_be_told_is_asked_for_again(
    kubernetes: StandInKubernetes, s3: Any
) -> None:
    ahead = asking(kubernetes, s3)
    refuse(s3, "PutObject", "AccessDenied")
    ahead(["k5"])
    ahead(["k5"])
    assert [*wanted(s3).since_unix_s] == [JOBS["k5"].key]


@pytest.mark.parametrize(("code", "kept"), [("InternalError", 2), ("AccessDenied", 1)])
def test_what_an_earlier_pod_asked_for_is_not_dropped_where_it_cannot_be_read_now(
    kubernetes: StandInKubernetes, s3: Any, code: str, kept: int
) -> None:
    """Denied: as S3 answers where nothing is there and the role may not list."""
    asking(kubernetes, s3)(["k5"])
    ahead = asking(kubernetes, s3)
    refuse(s3, "GetObject", code)
    ahead(["k9"])
    ahead(["k9"])
    assert len(wanted(s3).since_unix_s) == kept


def test_the_option_is_read_strictly() -> None:
    read = compile_jobs('{"k3": {"key": "00", "job_name": "compile-k3"}}')
    assert read == {"k3": CompileJob(key="00", job_name="compile-k3")}
    for wrong in (
        "[]",
        "{",
        '{"k3": {"key": "00"}}',
        '{"k3": {"key": "0", "job_name": "x", "y": 1}}',
    ):
        with pytest.raises(UserInputError, match="--compile-jobs: given"):
            compile_jobs(wrong)
