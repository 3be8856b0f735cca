"""A staged checkpoint comes into a folder: whole and checked files, what is needed, once."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from draftworth.account.clients import AwsError
from draftworth.account.s3_downloads import download_checkpoint
from draftworth.cli import estimate
from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.checkpoints import FailedModel, ReadyModel, StagingPlan, StoredFile
from draftworth.records.codec import dump_record
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.draftworth.estimate.written_runs import CLASSES, write_answers
from tests.support.readings import HalfRight

pytestmark = pytest.mark.emulator
URL = "s3://checkpoints/owner/draft/main"
WEIGHTS = "model.safetensors"
FILES = {"config.json": b"{}", "tokenizer.json": b"[]", WEIGHTS: b"weights"}
DRAFT = ROOT / "rehearsal/tiny_pair/draft"


@pytest.fixture
def s3(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3.create_bucket(Bucket="checkpoints")
    return s3


def put(s3: Any, name: str, body: bytes) -> None:
    s3.put_object(Bucket="checkpoints", Key=f"owner/draft/main/{name}", Body=body)


def ready(files: dict[str, bytes], **other: Any) -> bytes:
    values: dict[str, Any] = {
        "model": "owner/draft",
        "revision": "main",
        "commit": "c" * 40,
        "files": tuple(
            StoredFile(path=n, size_bytes=len(d), sha256=hashlib.sha256(d).hexdigest())
            for n, d in files.items()
        ),
        "tokenizer_fingerprint": None,
        "staged_at_unix_s": 0.0,
        "staging_seconds": 1.0,
    }
    return dump_record(ReadyModel(**{**values, **other}))


def stage(s3: Any, files: dict[str, bytes] | None = None) -> None:
    """As the stager leaves it."""
    files = FILES if files is None else files
    for name, data in files.items():
        put(s3, name, data)
    put(s3, "_READY.json", ready(files))


def downloaded(folder: Path, *, weights: bool = True, lines: list[str] | None = None) -> Path:
    lines = [] if lines is None else lines
    return download_checkpoint(URL, folder, needs_weights=weights, say=lines.append)


def content(place: Path) -> dict[str, bytes]:
    files = (path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


def test_every_file_lands_in_the_models_folder(s3: Any, tmp_path: Path) -> None:
    stage(s3)
    lines: list[str] = []
    place = downloaded(tmp_path, lines=lines)
    assert place.name == "draft"
    assert content(place) == FILES
    downloads = [f"owner/draft at main: downloading {name}" for name in FILES]
    assert [line.split(", ")[0] for line in lines] == downloads
    # Of a target the weights stay where they are; what was staged anew is another folder.
    without = downloaded(tmp_path / "target", weights=False)
    assert content(without).keys() == FILES.keys() - {WEIGHTS}
    stage(s3, {**FILES, "config.json": b"[]"})
    assert downloaded(tmp_path) != place


def test_only_what_is_incomplete_is_downloaded_again(s3: Any, tmp_path: Path) -> None:
    stage(s3)
    place = downloaded(tmp_path)
    (place / WEIGHTS).write_bytes(b"half")
    (place / f".{WEIGHTS}.partial").write_bytes(b"less than half")
    for name in FILES.keys() - {WEIGHTS}:
        s3.delete_object(Bucket="checkpoints", Key=f"owner/draft/main/{name}")

    assert downloaded(tmp_path) == place

    assert content(place) == FILES


def test_nothing_is_written_through_a_link(s3: Any, tmp_path: Path) -> None:
    """If somebody else made the folder, each name in it can be a link."""
    stage(s3)
    place, other = downloaded(tmp_path), tmp_path / "other"
    other.write_bytes(b"mine")
    (place / WEIGHTS).unlink()
    for name in (f".{WEIGHTS}.partial", WEIGHTS):
        (place / name).symlink_to(other)

    downloaded(tmp_path)

    assert other.read_bytes() == b"mine"
    assert not (place / WEIGHTS).is_symlink()
    assert content(place) == FILES


def test_content_that_contradicts_the_marker_is_refused(s3: Any, tmp_path: Path) -> None:
    stage(s3)
    put(s3, WEIGHTS, b"x" * len(FILES[WEIGHTS]))

    with pytest.raises(DraftworthError, match=r"another content than _READY\.json .* stage the"):
        downloaded(tmp_path)

    assert not [path for path in tmp_path.rglob("*") if WEIGHTS in path.name]


PLAN = StagingPlan(model="owner/draft", revision="main", commit="c")
FAILED = FailedModel(
    model="owner/draft", revision="main", reason="no such model; next: mend it", failed_at_unix_s=0
)


@pytest.mark.parametrize(
    ("markers", "words"),
    [
        ({}, r"no staged checkpoint there .*; allowed: s3://BUCKET/MODEL/REVISION .*; next: list"),
        ({"_STAGING.json": dump_record(PLAN)}, r"is not whole: its staging has begun .*next: wait"),
        (
            {"_STAGING.json": dump_record(PLAN), "_FAILED.json": dump_record(FAILED)},
            "staging was given up: no such model; next: mend it",
        ),
        ({"_FAILED.json": b"{}"}, r"given up; _FAILED\.json there, which should say why, is dam"),
        ({"_READY.json": b"{}"}, r"_READY\.json: schema: .*; next: delete it and stage"),
        ({"_READY.json": bytes(2**21)}, "no marker of a checkpoint: more than"),
        (
            {"_READY.json": ready(FILES, model="owner/other")},
            "given: the marker of owner/other at main, allowed: of the checkpoint",
        ),
    ],
)
def test_an_incomplete_checkpoint_is_refused_with_next_step(
    s3: Any, tmp_path: Path, markers: dict[str, bytes], words: str
) -> None:
    for name, body in markers.items():
        put(s3, name, body)

    with pytest.raises(UserInputError, match=f"^{URL}.*{words}"):
        downloaded(tmp_path)

    assert content(tmp_path) == {}


def test_an_address_without_folder_is_the_users_mistake(tmp_path: Path) -> None:
    for url in ("s3://checkpoints", "s3://checkpoints/a/../b", "s3://"):
        with pytest.raises(UserInputError, match="allowed: s3://BUCKET/"):
            download_checkpoint(url, tmp_path, needs_weights=True, say=print)


def test_missing_files_and_unwritable_folders_are_named(s3: Any, tmp_path: Path) -> None:
    stage(s3)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserInputError, match=r"^--out: .*cannot be written: .*; next: free some"):
        downloaded(tmp_path / "file")
    s3.delete_object(Bucket="checkpoints", Key=f"owner/draft/main/{WEIGHTS}")
    with pytest.raises(AwsError, match=f"could not read {URL}/{WEIGHTS}: "):
        downloaded(tmp_path)


def test_estimate_reads_a_staged_draft_and_tokenizer(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    stage(s3, {path.name: path.read_bytes() for path in DRAFT.glob("*.*")})
    run = write_answers(tmp_path / "run", classes=CLASSES)
    monkeypatch.setattr(estimate, "Reader", HalfRight)
    monkeypatch.setattr("rehearsal.install.install_engine", lambda *_, **__: Path("python"))
    staged = ("--draft", URL, "--target", URL, "--out", tmp_path / "out", "--json")
    output = ran("estimate", ROOT / "experiments/rehearsal.yaml", "--answers", run, *staged)
    assert '"draft": "draft"' in output
    assert "owner/draft at main: " in output
