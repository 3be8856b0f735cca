"""Folders without a model are refused, and a model has to fit into memory."""

import shutil
import sys
from pathlib import Path

import pytest

from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.estimate import model_folders, teacher_forcing
from draftworth.estimate.model_folders import check_model, printed_path
from draftworth.records.codec import dump_record
from draftworth.records.readings import Pass
from tests.conftest import ROOT
from tests.draftworth.estimate.pass_settings import settings
from tests.support.readings import make_output, make_reading

DRAFT = ROOT / "rehearsal/tiny_pair/draft"


@pytest.mark.parametrize(
    ("removed", "words"),
    [
        ("config.json", "a folder without a model's configuration; allowed: one with config.json;"),
        ("*.safetensors", "a folder without a model's weights"),
        ("tokenizer*", "a folder without a tokenizer; allowed: one with tokenizer.json or"),
    ],
)
def test_a_folder_that_lacks_a_part_is_refused(tmp_path: Path, removed: str, words: str) -> None:
    draft = tmp_path / "draft"
    shutil.copytree(DRAFT, draft)
    for path in draft.glob(removed):
        path.unlink()

    with pytest.raises(UserInputError, match=rf"^--draft: given .*draft, {words}.*next: "):
        check_model(draft, option="--draft")


@pytest.mark.parametrize("option", ["--target", "--draft"])
def test_a_missing_folder_is_named_with_its_option(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = str(ROOT / "experiments/rehearsal.yaml")
    answers = ("--answers", str(ROOT / "rehearsal/tiny_pair/answers"))

    assert main(["estimate", experiment, option, str(tmp_path / "none"), *answers]) == 2

    error = capsys.readouterr().err
    assert f"{option}: given {tmp_path / 'none'}, where no folder is; allowed" in error


def test_a_card_is_read_before_any_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = str(ROOT / "experiments/rehearsal.yaml")

    assert main(["estimate", experiment, "--card", str(tmp_path / "none")]) == 2

    assert "no step-cost card there" in capsys.readouterr().err


def test_what_is_read_already_is_there_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If all outputs have readings already, torch is not imported: the import takes long."""
    output = make_output()
    data = dump_record(settings(tmp_path)) + dump_record(output)

    def pass_of(_: object, __: object, this: Pass, path: Path) -> None:
        path.write_bytes(dump_record(this) + dump_record(make_reading("11", of=output)))

    with monkeypatch.context() as earlier:
        earlier.setattr(teacher_forcing, "_read", pass_of)
        assert teacher_forcing.main(data) == 0
    monkeypatch.setitem(sys.modules, "torch", None)
    assert teacher_forcing.main(data) == 0
    assert "draft: 1 output: read already" in capsys.readouterr().err


def test_a_folder_is_printed_relative_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert printed_path(DRAFT) == "rehearsal/tiny_pair/draft"
    assert printed_path(Path("drafts/a")) == "drafts/a"
    assert printed_path(Path("/elsewhere/a")) == "/elsewhere/a"


def test_available_memory_includes_the_page_cache(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 5 kB\n")

    assert model_folders.available_bytes(meminfo) == 5 * 2**10
    assert model_folders.available_bytes(tmp_path / "none") > 2**20


@pytest.mark.parametrize(("free_kb", "fits"), [(2**20 + 2, True), (2**20 + 1, False)])
def test_weights_need_room_to_work_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_kb: int, fits: bool
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemAvailable: {free_kb} kB\n")
    monkeypatch.setattr(model_folders, "MEMINFO", meminfo)
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").write_bytes(b"0" * 2**10)

    assert model_folders.fits(tmp_path) is fits
