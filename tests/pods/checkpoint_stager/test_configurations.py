"""A model without its weights, for who compiles its graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi

from draftworth.errors import UserInputError
from draftworth.records.codec import load_record
from draftworth.records.mounted_graphs import mounted_commits
from draftworth.records.staging import READY_MARKER, ReadyModel
from pods.checkpoint_stager import configurations, program
from pods.checkpoint_stager.configurations import fetch
from pods.checkpoint_stager.files import CorruptFileError
from pods.checkpoint_stager.hub import Hub
from tests.pods.checkpoint_stager.conftest import (
    COMMIT,
    MODEL,
    REVISION,
    Bench,
    model_files,
    tokenizer_json,
)
from tests.support.local_hub import LocalHub

pytestmark = pytest.mark.emulator
SMALL = {"config.json", "tokenizer.json"}


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def hub_client(hub: LocalHub) -> Hub:
    return Hub(HfApi(endpoint=hub.url, token=False), MODEL, sleep=lambda _: None)


def test_the_small_files_come_and_the_weights_do_not(hub: LocalHub, tmp_path: Path) -> None:
    fetch(hub_client(hub), REVISION, tmp_path / "target", progress=lambda _: None)
    there = files_of(tmp_path / "target")
    assert {*there} == {*SMALL, READY_MARKER}
    assert {name: there[name] for name in SMALL} == {name: model_files()[name] for name in SMALL}


def test_the_marker_is_what_staging_leaves_but_for_the_weights(
    hub: LocalHub, tmp_path: Path, bench: Bench
) -> None:
    ready = fetch(hub_client(hub), REVISION, tmp_path, progress=lambda _: None)
    assert load_record(ReadyModel, (tmp_path / READY_MARKER).read_bytes()) == ready
    staged = bench.staging().run()
    assert (ready.commit, ready.model, ready.revision) == (COMMIT, MODEL, REVISION)
    assert ready.tokenizer_fingerprint == staged.tokenizer_fingerprint is not None
    assert {*ready.files} < {*staged.files}
    assert mounted_commits({"target": tmp_path}) == {"target": staged.commit}


def test_a_file_that_stays_wrong_leaves_no_marker(hub: LocalHub, tmp_path: Path) -> None:
    hub.trouble.corrupt["config.json"] = 10
    said: list[str] = []
    with pytest.raises(CorruptFileError, match="3 times"):
        fetch(hub_client(hub), REVISION, tmp_path, progress=said.append)
    assert len(said) == 2
    assert READY_MARKER not in files_of(tmp_path)


def test_a_tokenizer_that_is_none_is_said_and_leaves_no_marker(
    hub: LocalHub, tmp_path: Path
) -> None:
    files = hub.repos[MODEL].commits[COMMIT]
    files["tokenizer.json"] = tokenizer_json()
    with pytest.raises(UserInputError, match="the tokenizer has no tokens"):
        fetch(hub_client(hub), REVISION, tmp_path, progress=lambda _: None)
    assert READY_MARKER not in files_of(tmp_path)


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [(MODEL, 0, COMMIT), ("acme/none", 2, "the hub has no such model")],
)
def test_the_program_says_how_it_went(
    hub: LocalHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: str,
    code: int,
    said: str,
) -> None:
    def at_this_hub(*, token: Any) -> HfApi:
        return HfApi(endpoint=hub.url, token=token)

    monkeypatch.setattr(program, "HfApi", at_this_hub)
    monkeypatch.setattr(configurations, "end_at_sigterm", lambda: None)
    first, second = tmp_path / "target", tmp_path / "draft"
    arguments = ["--checkpoint", MODEL, REVISION, str(first)]
    assert configurations.main([*arguments, "--checkpoint", model, REVISION, str(second)]) == code
    assert said in capsys.readouterr().err
    assert READY_MARKER in files_of(first)
    assert (READY_MARKER in files_of(second)) == (code == 0)
