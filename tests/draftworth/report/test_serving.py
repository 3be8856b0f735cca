"""A report of a run whose winner goes on serving: which, since when, and what was last seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from account import s3_source
from account.s3_source import download_run
from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.records.codec import dump_record
from draftworth.records.live import (
    KEPT_FILE,
    KeptWinner,
    LiveProbe,
    live_key,
    read_kept,
    read_last_probe,
)
from tests.draftworth.report.runs import make_run, write_run
from tests.support.blocks import START_UNIX_S
from tests.support.live import make_live_class, make_probe

RUN_ID = make_run().result.run_id


def kept(**overrides: Any) -> KeptWinner:
    fields: dict[str, Any] = {
        "run_id": RUN_ID,
        "variant": "k7",
        "servers": ("vllm-k7",),
        "since_unix_s": START_UNIX_S,
        "break_even_tokens_per_step": 2.0,
    }
    return KeptWinner(**{**fields, **overrides})


def probe(number: int, **overrides: Any) -> LiveProbe:
    fields: dict[str, Any] = {
        "run_id": RUN_ID,
        "number": number,
        "classes": (make_live_class(requests=1, failed=0, tokens_per_step=5.0),),
        "tokens_per_step": 5.0,
        "acceptance": 0.6,
    }
    return make_probe(**{**fields, **overrides})


def written(folder: Path, winner: KeptWinner, *probes: LiveProbe, above: str = "") -> Path:
    """A run's folder `runs/RUN`, and the looks beside it, or beside the folder of runs."""
    run = write_run(make_run(), folder / "runs" / RUN_ID)
    (run / KEPT_FILE).write_bytes(dump_record(winner))
    for found in probes:
        path = folder / (above or "runs") / live_key(RUN_ID, found.number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dump_record(found))
    return run


@pytest.mark.parametrize("above", ["", "."])
def test_the_last_look_is_shown_where_it_is_at_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], above: str
) -> None:
    run = written(tmp_path, kept(), probe(1), probe(12, acceptance=0.5, drifted=True), above=above)
    assert main(["report", str(run)]) == 0
    output = capsys.readouterr().out
    assert "The winner stays\nk7 stayed when the run was over" in output
    assert "With fewer than 2.00 tokens a step" in output
    assert "Look 12, " in output
    assert "it has DRIFTED" in output
    assert "50.0%" in output


@pytest.mark.emulator
def test_a_run_in_s3_is_downloaded_once_and_shows_the_last_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks lie beside the runs' folder."""
    looks = (probe(9), probe(10), probe(12, drifted=True))
    written(tmp_path, kept(), *looks, above=".")
    other = tmp_path / live_key("another", 13)
    other.parent.mkdir()
    other.write_bytes(dump_record(probe(13)))
    read: list[str] = []

    def noted(url: str, folder: Path) -> None:
        read.append(url)
        download_run(url, folder)

    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket="results")
        for file in (f for f in tmp_path.rglob("*") if f.is_file()):
            s3.upload_file(str(file), "results", file.relative_to(tmp_path).as_posix())
        monkeypatch.setattr(s3_source, "download_run", noted)
        assert main(["report", f"s3://results/runs/{RUN_ID}"]) == 0
        output = capsys.readouterr().out
        assert len(read) == 1
        s3.put_object(Bucket="results", Key=live_key(RUN_ID, 14), Body=b"{")
        assert main(["report", f"s3://results/runs/{RUN_ID}"]) == 2
    assert "Look 12, " in output
    assert "it has DRIFTED" in output
    error = capsys.readouterr().err
    assert f"s3://results/{live_key(RUN_ID, 14)}: no look at a winner of this version" in error


def test_without_looks_it_says_what_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    winner = kept(servers=("a", "b"), break_even_tokens_per_step=None)
    assert main(["report", str(written(tmp_path, winner))]) == 0
    output = capsys.readouterr().out
    assert "on the servers a, b, until one of its limits is reached." in output
    assert "Look" not in output
    assert "With fewer" not in output


def test_a_run_whose_winner_went_says_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(write_run(make_run(), tmp_path / "run"))]) == 0
    assert "The winner stays" not in capsys.readouterr().out


def test_the_winner_of_another_run_is_refused(tmp_path: Path) -> None:
    run = written(tmp_path, kept(run_id="another"))
    with pytest.raises(UserInputError, match="of run 'another'"):
        read_kept(run, RUN_ID)


def test_a_damaged_look_is_refused(tmp_path: Path) -> None:
    run = written(tmp_path, kept(), probe(1))
    (run.parent / live_key(RUN_ID, 2)).write_text("{")
    with pytest.raises(UserInputError, match="no look at a winner of this version"):
        read_last_probe(run, RUN_ID)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"servers": ()}, "servers"),
        ({"since_unix_s": -1.0}, "since_unix_s"),
        ({"break_even_tokens_per_step": 0.0}, "break_even_tokens_per_step"),
    ],
)
def test_a_winner_that_cannot_be_is_no_record(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        kept(**wrong)


def test_a_look_at_no_date_is_no_record() -> None:
    with pytest.raises(ValueError, match="ended_at_unix_s"):
        probe(1, ended_at_unix_s=1e18)
