"""A run in S3 comes into a folder: what the report reads of it, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from draftworth.account.s3_downloads import download_run
from draftworth.errors import UserInputError
from draftworth.records import codec, results
from tests.draftworth.report.runs import make_run_result

pytestmark = pytest.mark.emulator
RUN = (results.RUN_FILE, "search.json", "blocks/a.result.json", "blocks/a.transcript.jsonl.gz")


END = codec.dump_record(make_run_result(blocks=("a",)))


def put(s3: Any, *keys: str) -> None:
    for key in keys:
        body = END if key.endswith(results.RUN_FILE) else key.encode()
        s3.put_object(Bucket="results", Key=key, Body=body)


def downloaded(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_the_folder_mirrors_the_files_below_the_prefix(s3: Any, tmp_path: Path) -> None:
    put(s3, *(f"runs/one/{name}" for name in RUN))
    expected = {name: f"runs/one/{name}" for name in RUN} | {results.RUN_FILE: END.decode()}
    for slash in ("", "/"):
        folder = tmp_path / str(len(slash))
        download_run(f"s3://results/runs/one{slash}", folder)
        assert downloaded(folder) == expected


def test_result_files_not_listed_come_as_empty(s3: Any, tmp_path: Path) -> None:
    put(s3, *RUN, "blocks/copy.result.json")
    download_run("s3://results", tmp_path)
    assert downloaded(tmp_path)["blocks/copy.result.json"] == ""
    assert downloaded(tmp_path)["blocks/a.result.json"] == "blocks/a.result.json"


def test_a_run_with_unreadable_end_is_not_downloaded(s3: Any, tmp_path: Path) -> None:
    put(s3, *RUN)
    s3.put_object(Bucket="results", Key=results.RUN_FILE, Body=b"[" * 10_000)
    download_run("s3://results", tmp_path)
    assert {name for name, text in downloaded(tmp_path).items() if text} == {results.RUN_FILE}


def test_an_object_above_our_sizes_is_refused(s3: Any, tmp_path: Path) -> None:
    put(s3, *RUN)
    s3.put_object(Bucket="results", Key=results.RUN_FILE, Body=bytes(2**20 + 1))
    with pytest.raises(UserInputError, match=r"s3://results/run\.json: 1,048,577 bytes, allowed: "):
        download_run("s3://results", tmp_path)
    assert downloaded(tmp_path) == {}


def test_other_keys_are_not_downloaded(s3: Any, tmp_path: Path) -> None:
    foreign_keys = (
        "one/journal/pod.json",
        "one/blocks/a.llmperf.json",
        "one/blocks/deeper/a.result.json",
        "one/blocks/../../x.result.json",
        "one/a.result.json",
        "one-more/run.json",
    )
    put(s3, *(f"runs/{key}" for key in foreign_keys))
    download_run("s3://results/runs/one", tmp_path / "run")
    assert downloaded(tmp_path) == {}
