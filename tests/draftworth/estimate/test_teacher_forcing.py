"""The forward pass of a real model over outputs, in the engine's environment with torch."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftworth.records.codec import dump_record, load_record
from draftworth.records.readings import Output, Reading
from tests.conftest import ROOT
from tests.draftworth.estimate.pass_settings import DRAFT, TARGET, settings

pytestmark = pytest.mark.engine

# Outputs that the small target model in the checkout gives, or might give.
TEXTS = ("1 2 3 4 5 6 7 8 9 10", "Roses are red, violets are blue")


# Loading torch takes longer than any of these tests, so one process calls the program for all.
CALLER = """
import contextlib, io, json, sys
from draftworth.estimate.teacher_forcing import main
for line in sys.stdin:
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(said):
        code = main(json.loads(line).encode())
    print(json.dumps([code, said.getvalue()]), flush=True)
"""

Call = Callable[[bytes], tuple[int, str]]


@pytest.fixture(scope="module")
def call() -> Iterator[Call]:
    """Runs the program with this standard input; returns its exit code and all that it printed."""
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if python is None:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [python, "-c", CALLER],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as caller:
        assert caller.stdin
        assert caller.stdout
        to, answers = caller.stdin, caller.stdout

        def called(data: bytes) -> tuple[int, str]:
            to.write(json.dumps(data.decode()) + "\n")
            to.flush()
            code, errors = json.loads(answers.readline())
            return code, errors

        yield called
        to.close()


def output(number: int, **overrides: Any) -> Output:
    fields: dict[str, Any] = {
        "id": f"o{number}",
        "prompt_class": "structured",
        "case": "count",
        "prompt_id": f"p{number}",
        "asked": {"messages": [{"role": "user", "content": "Count from 1 to 10."}]},
        "text": TEXTS[number % len(TEXTS)],
    }
    return Output(**{**fields, **overrides})


def read(
    call: Call, folder: Path, outputs: list[Output], *, model: Path = DRAFT, target: Path = TARGET
) -> tuple[int, str]:
    return call(b"".join(map(dump_record, (settings(folder, model, target), *outputs))))


def file_of(folder: Path) -> Path:
    (file,) = folder.glob("*.readings.jsonl")
    return file


def readings(folder: Path) -> list[Reading]:
    lines = file_of(folder).read_bytes().splitlines()[1:]
    return [load_record(Reading, line) for line in lines]


def test_each_output_is_read_once_despite_interruptions(call: Call, tmp_path: Path) -> None:
    first, _ = read(call, tmp_path, [output(n) for n in range(4)])
    whole = file_of(tmp_path).read_bytes()
    for kept in (0, 30, len(whole) * 2 // 3):
        file_of(tmp_path).write_bytes(whole[:kept])
        second, errors = read(call, tmp_path, [output(n) for n in range(4)])

        assert (first, second) == (0, 0), errors
        assert errors.splitlines()[-1] == str(file_of(tmp_path))
    read_back = readings(tmp_path)
    assert sorted(r.id for r in read_back) == ["o0", "o1", "o2", "o3"]
    assert all(r.log_likelihood < 0 < r.entropy for r in read_back)
    # No model in these tests would have chosen all tokens of these texts.
    assert all(r.farthest > 0.5 for r in read_back)
    assert {r.id: r.hits for r in read_back}["o0"] == {r.id: r.hits for r in read_back}["o2"]
    _, third = read(call, tmp_path, [output(n) for n in range(4)])
    assert "draft: 4 outputs: read already" in third


def test_the_targets_token_ids_are_read_unchanged(call: Call, tmp_path: Path) -> None:
    ids = (7, 8, 9, 10, 11)

    assert read(call, tmp_path, [output(0, token_ids=ids)])[0] == 0
    assert [len(r.hits) for r in readings(tmp_path)] == [len(ids) - 1]


def test_readings_of_another_pass_are_in_another_file(call: Call, tmp_path: Path) -> None:
    retold = tmp_path / "retold"
    shutil.copytree(TARGET, retold)
    template = json.loads((retold / "tokenizer_config.json").read_text())
    (retold / "tokenizer_config.json").write_text(json.dumps({**template, "padding_side": "left"}))

    for number, folders in enumerate(
        ({}, {"model": TARGET}, {"target": retold}, {"model": TARGET, "target": retold}), start=1
    ):
        code, errors = read(call, tmp_path, [output(0)], **folders)

        assert code == 0, errors
        assert "read already" not in errors
        assert len([*tmp_path.glob("*.readings.jsonl")]) == number


def test_a_changed_file_of_readings_is_refused(call: Call, tmp_path: Path) -> None:
    assert read(call, tmp_path, [output(0)])[0] == 0
    data = file_of(tmp_path).read_bytes()
    file_of(tmp_path).write_bytes(data.replace(b'"model":"draft"', b'"model":"other"'))

    code, errors = read(call, tmp_path, [output(0)])

    assert code == 2
    assert "its first line is of another pass; next: remove it" in errors


def test_outputs_of_none_or_one_token_are_read(call: Call, tmp_path: Path) -> None:
    ids = [(), (7,)]

    code, errors = read(call, tmp_path, [output(n, token_ids=i) for n, i in enumerate(ids)])

    assert code == 0, errors
    assert "draft: 1 token read" in errors
    assert [r.hits for r in readings(tmp_path)] == [""]


def test_an_interrupt_leaves_no_traceback(tmp_path: Path) -> None:
    # Ctrl-C can come at any moment. Here it comes at the import of torch, for which a module of
    # that name raises KeyboardInterrupt.
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-m", "draftworth.estimate.teacher_forcing"],
        input=(dump_record(settings(tmp_path)) + dump_record(output(0))).decode(),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stderr=subprocess.PIPE,
        check=False,
        text=True,
    )

    assert (done.returncode, done.stderr) == (1, "")


def cut_off(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:1000])


def with_another_token(tokenizer: Path) -> None:
    tokenizer.write_text(tokenizer.read_text().replace("<|im_end|>", "<|other|>"))


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("config.json", Path.unlink, "a folder with config.json"),
        ("tokenizer.json", Path.unlink, "no tokenizer can be read there"),
        ("tokenizer.json", with_another_token, "its vocabulary is not the target's"),
        ("model.safetensors", Path.unlink, "no causal language model can be read there"),
        ("model.safetensors", cut_off, "next: copy or download the folder again"),
    ],
)
def test_a_folder_without_a_fitting_draft_is_refused(
    call: Call, tmp_path: Path, name: str, damage: Callable[[Path], None], reason: str
) -> None:
    shutil.copytree(DRAFT, tmp_path / "draft")
    damage(tmp_path / "draft" / name)

    code, errors = read(call, tmp_path, [output(0)], model=tmp_path / "draft")

    assert code == 2, errors
    assert reason in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"token_ids": (7, 10**6)}, "o0: given the token id 1000000, allowed: 0 to "),
        ({"token_ids": (-1,)}, "o0: given the token id -1, allowed: 0 to "),
        ({"asked": {"prompt": ""}}, "o0: its prompt has no token, allowed: one or more"),
    ],
)
def test_unreadable_tokens_are_refused_in_a_sentence(
    call: Call, tmp_path: Path, overrides: dict[str, Any], reason: str
) -> None:
    code, errors = read(call, tmp_path, [output(0, **overrides)])

    assert code == 2, errors
    assert reason in errors
    assert "Traceback" not in errors


def test_an_input_that_holds_no_outputs_is_refused(call: Call, tmp_path: Path) -> None:
    code, errors = call(dump_record(settings(tmp_path)) + b'{"id": 1}\n')

    assert code == 2
    assert "not settings of a pass and outputs" in errors
