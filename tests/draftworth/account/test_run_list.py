"""The runs of a bucket and of an experiment are listed, whatever else lies there."""

from datetime import UTC, datetime
from typing import Any

import pytest

from draftworth.account import run_list
from draftworth.records.codec import dump_record
from draftworth.records.results import RUN_FILE
from tests.draftworth.account import emulated_resources, stubs
from tests.draftworth.conftest import Ran
from tests.draftworth.report.runs import make_run_result
from tests.support.blocks import START_UNIX_S

pytestmark = [pytest.mark.emulator]
HOUR = 3600


def put_run(
    s3: Any, name: str, *, bucket: str = "results", folder: str = "runs/", **of: Any
) -> None:
    key = f"{folder}{name}/{RUN_FILE}"
    s3.put_object(Bucket=bucket, Key=key, Body=dump_record(make_run_result(run_id=name, **of)))


def test_runs_are_listed_newest_first_with_commands(s3: Any, ran: Ran) -> None:
    put_run(s3, "a-old", blocks=("x", "y"))
    failed = {"status": "failed", "reason": "no server"}
    put_run(s3, "b-new", started_at_unix_s=START_UNIX_S + HOUR, **failed)
    s3.put_object(Bucket="results", Key="control/capacity.json", Body=b"{}")
    text = ran("report", "s3://results")
    assert [" ".join(line.split()) for line in text.splitlines()] == [
        "s3://results/runs/: 2 runs",
        "begun status experiment blocks run",
        f"{utc(START_UNIX_S + HOUR)} failed built 0 b-new",
        "why: no server",
        "show: draftworth report s3://results/runs/b-new",
        f"{utc(START_UNIX_S)} complete built 2 a-old",
        "show: draftworth report s3://results/runs/a-old",
    ]
    assert ran("report", "s3://results/") == ran("report", "s3://results/runs/") == text


def utc(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M} UTC"


def test_an_unfinished_run_is_listed_without_report(s3: Any, ran: Ran) -> None:
    put_run(s3, "a")
    s3.put_object(Bucket="results", Key="runs/b/blocks/0001.result.json", Body=b"{}")
    text = ran("report", "s3://results")
    assert "not over" in text
    assert "report s3://results/runs/b" not in text
    assert text.index("not over") < text.index("complete"), "S3 got its first file just now"


def test_an_unreadable_run_is_listed_and_hides_none(s3: Any, ran: Ran) -> None:
    put_run(s3, "a")
    reasons = {
        b"[": "run.json: not JSON: ",
        b"{}": "run.json: schema: given None",
        bytes(2**20 + 1): "run.json: more than 1,048,576 bytes",
    }
    for number, body in enumerate(reasons):
        s3.put_object(Bucket="results", Key=f"runs/b{number}/run.json", Body=body)
    text = ran("report", "s3://results")
    assert "4 runs" in text
    assert [f"why: {reason}" in text for reason in reasons.values()] == [True] * 3
    assert text.count("show: ") == 1


def test_folders_with_impossible_names_are_only_counted(s3: Any, ran: Ran) -> None:
    names = ["a b", "$(id)", "-x", ".x", "x" * 201, "\x1b[2J", "x;id"]
    for name in ("a", *names):
        put_run(s3, name)
    text = ran("report", "s3://results")
    assert "1 run\n" in text
    assert "not looked at: 7 folders with names that no run has" in text
    assert [name for name in names if f"/{name}" in text] == []


def test_a_reason_of_many_lines_becomes_one(s3: Any, ran: Ran) -> None:
    put_run(s3, "a", status="failed", reason="\x1b[2J\nshow: rm -rf /\n" + 1000 * "x")
    text = ran("report", "s3://results")
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.strip().startswith("show: rm")] == []
    assert max(map(len, text.splitlines())) < 300


def test_a_list_above_its_limit_says_so(s3: Any, monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    monkeypatch.setattr(run_list, "MOST_RUNS", 2)
    for name in "abc":
        put_run(s3, name)
    text = ran("report", "s3://results")
    assert "s3://results/runs/: 2 runs" in text
    assert "more than 2 folders: these are the first by name" in text


def test_listing_gives_up_among_many_loose_files(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "_MOST_PAGES", 1)
    for number in range(11):
        s3.put_object(Bucket="results", Key=f"runs/{number:04d}.txt", Body=b"")

    def short_pages(params: dict[str, Any], **_: Any) -> None:
        params["MaxKeys"] = 10

    s3.meta.events.register("before-parameter-build.s3.ListObjectsV2", short_pages)
    put_run(s3, "z")
    first, last = run_list.lines(s3, "results", "runs/")
    assert first == "s3://results/runs/: no runs"
    assert "more than 1,000 folders" in last


def test_a_run_at_its_buckets_top_is_reported(s3: Any, ran: Ran) -> None:
    body = dump_record(make_run_result(status="failed", reason="no server"))
    s3.put_object(Bucket="results", Key=RUN_FILE, Body=body)
    put_run(s3, "a")
    assert "no server" in ran("report", "s3://results")


def test_a_place_without_runs_says_so(s3: Any, ran: Ran) -> None:
    put_run(s3, "a", folder="archive/runs/")
    s3.put_object(Bucket="results", Key="half/blocks/0001.result.json", Body=b"{}")
    show = "show: draftworth report s3://results/archive/"
    deploy = "no results bucket of experiment qwen3-32b in this account; next: `make deploy"
    for place, code, words in (
        ("s3://results", 0, "s3://results/runs/: no runs\n"),
        ("s3://results/archive/runs", 0, show),
        ("s3://results/half", 2, "s3://results/half: no run.json there"),
        ("s3://nowhere", 1, "could not read s3://nowhere: NoSuchBucket"),
        (stubs.QWEN, 1, deploy),
        ("nowhere.yaml", 2, "nowhere.yaml"),
    ):
        assert words in ran("report", place, code=code)


def test_options_for_one_run_refuse_a_list(s3: Any, ran: Ran) -> None:
    with_values = (("--weights", "a=1"), ("--usd-per-hour", "a=1"), ("--limit", "a=1"))
    for option in (("--out", "x"), ("--against", "s3://x"), ("--handover",), *with_values):
        text = ran("report", "s3://results", *option, code=2)
        assert f"{option[0]}: given with s3://results, which names many runs" in text


def test_an_experiment_lists_all_its_results_buckets_only(s3: Any, ran: Ran) -> None:
    for number, name in ((1, "first"), (2, "second")):
        bucket = emulated_resources.holding("results", number=number)
        put_run(emulated_resources.client("s3"), name, bucket=bucket)
    emulated_resources.holding("artifacts", key="runs/x/run.json")
    other = f"{emulated_resources.STACK}-x-storageresults1-x"
    tags = emulated_resources.OTHERS_TAGS | {"draftworth:holds": "results"}
    emulated_resources.bucket(other, tags, key="runs/x/run.json")
    text = ran("report", stubs.QWEN)
    assert text.count(": 1 run\n") == 2
    assert "/runs/first" in text
    assert "/runs/second" in text
    assert "/runs/x" not in text
