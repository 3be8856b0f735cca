"""`draftworth report` makes a report of any run folder, or one message that names the bad file.

Each past failure is a row of `PAST_FAILURES`: a change to a good run (a path of keys into
`run.json` or `blocks`), and words of the message about it. Values that the record's own checks
refuse are tested in `tests/draftworth/records`.
"""

import contextlib
import copy
import gzip
import io
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from moto import mock_aws

from draftworth.cli import main
from draftworth.measuring.journal import JOURNAL_FOLDER, Entry
from draftworth.measuring.run_specification import Endpoint
from draftworth.records import results
from draftworth.records.codec import dump_record, load_record
from draftworth.records.run_folder import is_file_name
from draftworth.records.search_result import SEARCH_FILE
from lambdas.metrics_publisher.handler import handle_batch
from lambdas.metrics_publisher.metric_data_calls import MAX_VALUES_PER_DATUM
from lambdas.metrics_publisher.publisher import Publisher
from tests.draftworth.report.plots import drawn_small
from tests.draftworth.report.runs import make_run
from tests.draftworth.report.searches import make_search_result, write_search
from tests.hostile import fuzzing
from tests.hostile.fuzzing import Draw, bounded, edit, tries
from tests.support.blocks import (
    START_UNIX_S,
    make_block,
    make_failed_record,
    make_price,
    make_record,
)
from tests.support.specifications import specification

# The files of a run as JSON: `run` is run.json, `blocks` has its result files, and `transcripts`
# one list of transcripts for each block.
Parts = dict[str, Any]

# How many prompts the runs have. With six, the report has confidence intervals; with two it has
# none and is made faster.
PROMPTS = (2, 2, 2, 6)


def parts_of(prompts: int) -> Parts:
    price = make_price()
    lost = results.Interruption(
        kind="servers", at_unix_s=START_UNIX_S, lost_s=3.0, blocks=("0009-x",), reason="gone"
    )
    run = make_run(price=price, interruptions=(lost,))
    blocks = [json.loads(dump_record(block)) for block in run.blocks]
    for block in blocks:
        block["requests"] = block["requests"][:prompts]
    return {
        "run": json.loads(dump_record(run.result)),
        "blocks": blocks,
        "transcripts": [[_transcript(r) for r in block["requests"]] for block in blocks],
    }


def _transcript(request: dict[str, Any]) -> dict[str, Any]:
    return {
        "request_id": request["request_id"],
        "text": "the same text",
        "chunk_offsets_us": [250_000, 260_000, 270_000],
        "chunk_tokens": [1, 1, 1],
        "chunk_characters": [4, 5, 4],
        "token_ids": None,
    }


RUNS = {prompts: parts_of(prompts) for prompts in PROMPTS}


def agree(parts: Parts) -> None:
    """Give all files the run's id, experiment and block names again, as a forger would."""
    for block in parts["blocks"]:
        for name in ("run_id", "experiment"):
            if name in parts["run"] and isinstance(block, dict):
                block[name] = parts["run"][name]
    parts["run"]["blocks"] = stems(parts)


def stems(parts: Parts) -> list[str]:
    texts = (json.dumps(block) for block in parts["blocks"])
    return [_stem(text, number) for number, text in enumerate(texts)]


# Most blocks are those of `RUNS`, unchanged.
@lru_cache(maxsize=128)
def _stem(block: str, number: int) -> str:
    with contextlib.suppress(Exception):
        stem = load_record(results.BlockResult, block).stem
        if is_file_name(f"{stem}{results.TRANSCRIPT_SUFFIX}"):
            return stem
    return f"{number:04d}-broken"


def write(parts: Parts, folder: Path) -> Path:
    (folder / results.BLOCKS_FOLDER).mkdir(parents=True)
    (folder / results.RUN_FILE).write_text(json.dumps(parts["run"]))
    for stem, block, lines in zip(stems(parts), parts["blocks"], parts["transcripts"], strict=True):
        path = folder / results.BLOCKS_FOLDER / stem
        path.with_name(f"{stem}{results.RESULT_SUFFIX}").write_text(json.dumps(block))
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        path.with_name(f"{stem}{results.TRANSCRIPT_SUFFIX}").write_bytes(gzip.compress(data, 1))
    return folder


def damaged(draw: Draw, data: bytes) -> bytes:
    """Draw the bytes of a file with a part removed, inserted or replaced."""
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 200)))
    long = st.sampled_from([b"[" * 50_000, b"\x00", b"\xff", b"9" * 5000])
    put_in = draw(st.binary(max_size=20) | long)
    changed: bytes = data[:start] + put_in + data[end:]
    return changed


STAND_INS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
    "nothing": lambda path: None,
    "empty": Path.touch,
}


def changed_run(draw: Draw, folder: Path) -> Path:
    """Write a good run with some drawn changes into the folder, and return the run's folder."""
    parts = copy.deepcopy(RUNS[draw(st.sampled_from(PROMPTS))])
    for _ in range(draw(st.integers(0, 3))):
        edit(draw, draw(st.sampled_from([parts["run"], *parts["blocks"], *parts["transcripts"]])))
    if draw(st.integers(0, 5)):
        agree(parts)
    write(parts, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if draw(st.integers(0, 7)) == 0:
        file = draw(st.sampled_from(files))
        file.write_bytes(damaged(draw, file.read_bytes()))
    if draw(st.integers(0, 7)) == 0:
        file = draw(st.sampled_from(files))
        file.unlink()
        STAND_INS[draw(st.sampled_from([*STAND_INS]))](file)
    return folder


def report(folder: Path, *, loops: float = fuzzing.MAX_LOOPS) -> tuple[int, str]:
    """Run `draftworth report`, check what must hold for any run, and return exit code and output.

    loops: the most CPU time, as a multiple of that of a reference loop.
    """
    out, errors = io.StringIO(), io.StringIO()
    with (
        bounded(loops=loops),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        code = main(["report", str(folder), "--out", str(folder / "out")])
    text = out.getvalue() + errors.getvalue()
    assert text.replace("\n", "").isprintable()
    if code == 0:
        assert errors.getvalue() == "", errors.getvalue()
        for name in ("report.md", "report.html", "figures.csv", "requests.csv"):
            written = (folder / "out" / name).read_text()
            assert written.replace("\n", "").isprintable(), name
    else:
        assert code == 2
        assert out.getvalue() == ""
        assert text.startswith(f"draftworth: {folder}")
        assert len(text) < 2000
    return code, text


@tries(9_000, few=15)
@given(data=st.data())
@pytest.mark.usefixtures("undrawn")
def test_any_run_gives_a_report_or_one_message(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        code, _ = report(changed_run(data.draw, Path(folder) / "run"))
        event(f"exit code {code}")


@tries(30, few=1)
@given(data=st.data())
def test_a_run_of_anybody_can_be_drawn(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, drawn_small():
        code, _ = report(changed_run(data.draw, Path(folder) / "run"), loops=20.0)
        assume(code == 0)


SEARCH = json.loads(dump_record(make_search_result()))


@tries(3_000, few=4)
@given(data=st.data())
@pytest.mark.usefixtures("undrawn")
def test_any_search_result_is_shown_or_refused(data: st.DataObject) -> None:
    search = copy.deepcopy(SEARCH)
    for _ in range(data.draw(st.integers(0, 2))):
        edit(data.draw, search)
    with tempfile.TemporaryDirectory() as folder:
        run = write_search(Path(folder) / "run")
        (run / SEARCH_FILE).write_text(json.dumps(search))
        code, _ = report(run)
        event(f"exit code {code}")


def test_the_runs_that_are_changed_are_good_ones(tmp_path: Path, undrawn: None) -> None:
    for prompts, parts in RUNS.items():
        assert report(write(parts, tmp_path / str(prompts)))[0] == 0


# Changes to a good run: the changed place, its new value, and words of the message; if the words
# are empty, there must be a report.
PAST_FAILURES: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "no width asked for": (("run", "target_interval_width"), 0.0, ""),
    "a price that knows no variant": (("run", "price", "node_shares"), {}, ""),
    "a step that took no time": (("blocks", 1, "requests", 0, "inter_token_latency_s"), 0, ""),
    "tokens of a hundred years": (("blocks", 0, "requests", 0, "number_output_tokens"), 10**18, ""),
    "a class of control characters": (("blocks", 0, "prompt_class"), "\x1b[2J", "block: given"),
    "counters that went back": (("blocks", 1, "speculation", "drafts"), -100, "per_position"),
    "more accepted than drafted": (
        ("blocks", 1, "speculation", "accepted_tokens"),
        10**6,
        "accepted_tokens: given 1000000",
    ),
}


@pytest.mark.parametrize("name", PAST_FAILURES)
@pytest.mark.usefixtures("undrawn")
def test_what_failed_once(name: str, tmp_path: Path) -> None:
    path, value, message = PAST_FAILURES[name]
    parts = copy.deepcopy(RUNS[6])
    fuzzing.at(parts, path[:-1])[path[-1]] = value
    agree(parts)
    code, text = report(write(parts, tmp_path / "run"))
    assert code == (2 if message else 0)
    assert message in text


# Files of a run in which a key is given twice: the file, and the added key with its value.
TWICE = {
    "run.json": '"run_id":"another",',
    "blocks/*.result.json": '"requests":[],',
    "blocks/*.transcript.jsonl.gz": '"text":"another",',
}


@pytest.mark.parametrize("file", TWICE)
@pytest.mark.usefixtures("undrawn")
def test_a_repeated_key_is_refused_by_name(file: str, tmp_path: Path) -> None:
    path = sorted(write(RUNS[2], tmp_path / "run").glob(file))[0]
    packed = path.suffix == ".gz"
    data = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    data = b"{" + TWICE[file].encode() + data[1:]
    path.write_bytes(gzip.compress(data) if packed else data)
    code, text = report(tmp_path / "run")
    key = TWICE[file].split('"')[1]
    assert f"given the key '{key}' twice in one object, allowed: once" in text
    assert code == 2


BUCKET = "results-111122223333"


@pytest.fixture(scope="module")
def publisher() -> Iterator[tuple[Publisher, list[dict[str, Any]]]]:
    """The Lambda function that publishes metrics, and the list of metric data that it sends."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        s3 = boto3.client("s3", region_name="us-east-1")
        cloudwatch = boto3.client("cloudwatch", region_name="us-east-1")
        s3.create_bucket(Bucket=BUCKET)
        data: list[dict[str, Any]] = []
        cloudwatch.meta.events.register(
            "provide-client-params.cloudwatch.PutMetricData",
            lambda params, **_: data.extend(params["MetricData"]),
        )
        cloudwatch.meta.events.register(
            "before-call.cloudwatch.PutMetricData",
            lambda **_: (SimpleNamespace(status_code=200), {}),  # type: ignore[arg-type]
        )
        yield (
            Publisher(
                s3=s3, cloudwatch=cloudwatch, bucket=BUCKET, clock=lambda: START_UNIX_S + 3600
            ),
            data,
        )


BLOCK = json.loads(dump_record(make_block(requests=(make_record(), make_failed_record(1)))))


@tries(2_000)
@given(data=st.data())
def test_any_result_file_is_published_or_refused(
    publisher: tuple[Publisher, list[dict[str, Any]]], data: st.DataObject
) -> None:
    publish, sent = publisher
    block = copy.deepcopy(BLOCK)
    for _ in range(data.draw(st.integers(0, 3))):
        edit(data.draw, block)
    body = json.dumps(block).encode()
    if data.draw(st.integers(0, 3)) == 0:
        body = damaged(data.draw, body)
    key = _key(body)
    log = deliver(publish, key, body)
    event(log["event"])
    if log["event"] == "published":
        assert all(_fits(datum) for datum in sent)
    else:
        assert log["event"] == "not published"
        assert log["error"] == "UnusableError", log
        assert 0 < len(log["reason"]) <= 2000
        assert sent == []
    sent.clear()


def _key(body: bytes) -> str:
    with contextlib.suppress(Exception):
        key = load_record(results.BlockResult, body).key
        if key.isprintable() and len(key.encode()) < 1000:
            return key
    return load_record(results.BlockResult, json.dumps(BLOCK)).key


def deliver(publisher: Publisher, key: str, body: bytes) -> dict[str, Any]:
    """Store a result file, deliver S3's event about it, and return the function's log line."""
    publisher.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    publisher.s3.delete_object(Bucket=BUCKET, Key=results.claim_key(key))
    about = {"bucket": {"name": BUCKET}, "object": {"key": key}}
    event = {"detail-type": results.OBJECT_CREATED, "detail": about}
    message = {"messageId": "1", "body": json.dumps(event)}
    lines: list[dict[str, Any]] = []
    with bounded():
        handle_batch(
            {"Records": [message]}, None, publisher=publisher, log=lambda e: lines.append(dict(e))
        )
    (line,) = lines
    return line


def _fits(datum: dict[str, Any]) -> bool:
    values = datum["Values"]
    good = all(math.isfinite(value) and abs(value) <= 2.0**360 for value in values)
    return good and 0 < len(values) <= MAX_VALUES_PER_DATUM


def unended(folder: Path) -> Path:
    """Write a run of `compare` that was killed after its blocks were measured; return its folder.

    It has a specification, a journal and finished blocks, but no `run.json`.
    """
    parts = copy.deepcopy(RUNS[6])
    parts["run"]["experiment"] = "compare"
    agree(parts)
    run = write(parts, folder)
    (run / results.RUN_FILE).unlink()
    first = parts["blocks"][0]
    endpoints = (
        Endpoint(
            variant=name,
            base_url=f"http://{name}",
            max_tokens_per_step=None,
            is_baseline=name == parts["run"]["baseline"],
        )
        for name in parts["run"]["variants"]
    )
    spec = specification(tuple(endpoints), experiment=first["experiment"])
    (run / results.SPECIFICATION_FILE).write_bytes(dump_record(spec))
    entry = Entry(
        attempt=1,
        number=0,
        kind="started",
        started_at_unix_s=START_UNIX_S - 1,
        ended_at_unix_s=START_UNIX_S - 1,
    )
    (run / JOURNAL_FOLDER).mkdir()
    (run / entry.name).write_bytes(dump_record(entry))
    return run


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_did_not_end_is_reported(tmp_path: Path) -> None:
    code, text = report(unended(tmp_path / "run"))
    assert code == 0
    assert text.startswith("No decision, the run is not complete: the run did not end, ")


@pytest.mark.usefixtures("undrawn")
def test_an_unfinished_run_without_journal_is_refused(tmp_path: Path) -> None:
    run = unended(tmp_path / "run")
    shutil.rmtree(run / JOURNAL_FOLDER)
    code, text = report(run)
    assert code == 2
    assert "given without journal/, allowed: with it; next: copy the whole folder of the ru" in text


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("experiment", "x; curl h|sh #", "experiment: given 'x; curl h|sh #', allowed: compare or"),
        ("loads", [], "loads: given none, allowed: one or more"),
    ],
)
@pytest.mark.parametrize("is_finished", [True, False])
def test_a_foreign_runs_words_are_no_next_step(
    key: str, value: object, message: str, is_finished: bool, tmp_path: Path
) -> None:
    run = unended(tmp_path / "run")
    if not is_finished:  # the message then names a command as the next step
        shutil.rmtree(run / results.BLOCKS_FOLDER)
    spec = json.loads((run / results.SPECIFICATION_FILE).read_bytes())
    (run / results.SPECIFICATION_FILE).write_text(json.dumps(spec | {key: value}))
    code, text = report(run)
    assert code == 2
    assert message in text
    assert "draftworth x" not in text


@tries(2_000, few=15)
@given(data=st.data())
@pytest.mark.usefixtures("undrawn")
def test_any_unfinished_run_gives_a_report_or_message(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = unended(Path(folder) / "run")
        files = sorted(path for path in run.rglob("*.json") if path.is_file())
        for _ in range(data.draw(st.integers(1, 3))):
            file = data.draw(st.sampled_from(files))
            value = json.loads(file.read_bytes())
            edit(data.draw, value)
            file.write_text(json.dumps(value))
        code, _ = report(run)
        event(f"exit code {code}")


# Files that `report` writes into a run's folder, and the options with which it writes them.
WRITES: dict[str, tuple[str, ...]] = {
    "report/report.html": ("--out",),
    "report/report.md": ("--out",),
    "report/handover.md": ("--handover", "--out"),
}


def run_and_precious(name: str, folder: Path) -> tuple[Path, Path]:
    """Return a run that has the folder of the file `name`, and a file that must not change."""
    run, precious = write(copy.deepcopy(RUNS[2]), folder / "run"), folder / "precious"
    precious.write_text("mine")
    (run / name).parent.mkdir(exist_ok=True)
    return run, precious


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.usefixtures("undrawn")
def test_nothing_is_written_through_a_file_link(name: str, tmp_path: Path) -> None:
    run, precious = run_and_precious(name, tmp_path)
    (run / name).symlink_to(precious)
    assert main(["report", str(run), *WRITES[name]]) == 0
    assert precious.read_text() == "mine"
    assert (run / name).is_file()
    assert not (run / name).is_symlink()


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.usefixtures("undrawn")
def test_nothing_is_written_through_hard_links_or_pipes(name: str, tmp_path: Path) -> None:
    run, precious = run_and_precious(name, tmp_path)
    (run / name).hardlink_to(precious)
    assert main(["report", str(run), *WRITES[name]]) == 0
    assert precious.read_text() == "mine"
    (run / name).unlink()
    os.mkfifo(run / name)
    assert main(["report", str(run), *WRITES[name]]) == 0
    assert (run / name).is_file()


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.usefixtures("undrawn")
def test_a_folder_link_is_refused_in_one_sentence(
    name: str, is_named: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """is_named: whether `--out` names the report's folder, which is a link in the run's folder."""
    run = write(copy.deepcopy(RUNS[2]), tmp_path / "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / "report").symlink_to(elsewhere)
    words = [word for word in WRITES[name] if not (is_named and word == "--out")]
    named = ["--out", str(run / "report")] if is_named else []
    assert main(["report", str(run), *words, *named]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f"{run / 'report'} is a link, allowed: a folder; next: remove the link" in message
    assert list(elsewhere.iterdir()) == []


# Ways to name a run: the working folder, the argument RUN, and the folder after `--out`; without
# one, the report is written into the run's folder. `alias` is a link to the run.
SPELLINGS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "below": (".", "runs/run", ()),
    "below, twice": (".", "runs/run", ("runs/run/report",)),
    "this folder": ("runs/run", ".", ()),
    "this folder, twice": ("runs/run", ".", ("report",)),
    "beside": ("runs/other", "../run", ()),
    "another name for --out": (".", "runs/run", ("runs/alias/report",)),
    "another name for the run": (".", "runs/alias", ("runs/run/report",)),
    "there and back": (".", "runs/run", ("runs/run/blocks/../report",)),
}


@pytest.fixture
def spelled_run(tmp_path: Path) -> Path:
    run = write(copy.deepcopy(RUNS[2]), tmp_path / "runs" / "run")
    run.with_name("other").mkdir()
    run.with_name("alias").symlink_to(run)
    return run


@pytest.mark.parametrize("words", [("--out",), ("--handover", "--out")])
@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.usefixtures("undrawn")
def test_a_run_may_be_named_in_any_way(
    name: str,
    words: tuple[str, ...],
    spelled_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    working, run, out = SPELLINGS[name]
    monkeypatch.chdir(tmp_path / working)
    assert main(["report", run, *words, *out]) == 0, capsys.readouterr().err
    assert any((spelled_run / "report").glob("*.html"))
    assert f" {out[0] if out else Path(run) / 'report'}" in capsys.readouterr().out


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.usefixtures("undrawn")
def test_a_link_in_a_run_is_always_refused(
    name: str,
    spelled_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    working, run, out = SPELLINGS[name]
    (spelled_run / "report").symlink_to("../other")
    monkeypatch.chdir(tmp_path / working)
    assert main(["report", run, "--out", *out]) == 1
    assert "is a link, allowed: a folder; next: remove the link" in capsys.readouterr().err
    assert list(spelled_run.with_name("other").iterdir()) == []


@pytest.mark.usefixtures("undrawn")
def test_the_users_folder_may_be_a_link(tmp_path: Path) -> None:
    run = write(copy.deepcopy(RUNS[2]), tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "latest").symlink_to(run)
    assert main(["report", str(run), "--out", str(tmp_path / "link")]) == 0
    assert (tmp_path / "mine" / "report.html").is_file()
    assert main(["report", str(tmp_path / "latest"), "--out"]) == 0
    assert (run / "report" / "report.html").is_file()


# What replaces a result file, and words of the message; if the words are empty, it is read.
READS: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "a link to a file that is no result": (
        lambda path, other: path.symlink_to(other),
        "file of this version: not JSON: ",
    ),
    "a pipe": (lambda path, _: os.mkfifo(path), "a pipe or device, allowed: a regular file"),
    "a link to a device": (lambda path, _: path.symlink_to("/dev/zero"), "a pipe or device"),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("has_ended", [True, False])
@pytest.mark.usefixtures("undrawn")
def test_a_foreign_file_as_result_is_not_quoted(name: str, has_ended: bool, tmp_path: Path) -> None:
    make, message = READS[name]
    run = (
        write(copy.deepcopy(RUNS[2]), tmp_path / "run") if has_ended else unended(tmp_path / "run")
    )
    other = tmp_path / "other"
    other.write_text("root:x:0:0:secret")
    file = next((run / results.BLOCKS_FOLDER).glob(f"*{results.RESULT_SUFFIX}"))
    file.unlink()
    make(file, other)
    code, text = report(run)
    assert "secret" not in text
    # In an unfinished run, what is no regular file is not taken for a finished block.
    assert code == (2 if has_ended or "no result" in name else 0)
    assert (message in text) == (code == 2)
