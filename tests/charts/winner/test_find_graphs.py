"""What the init container does: the program as it travels, run against a folder for a bucket."""

import subprocess
import sys
from pathlib import Path

import pytest

from charts.winner import find_graphs
from draftworth.records.artifacts import ArtifactManifest, manifest_key
from draftworth.records.checkpoints import StoredFile
from draftworth.records.codec import dump_record

KEY = "0123456789abcdef01234567"


def bucket(folder: Path) -> Path:
    """A bucket as the uploader leaves it, with one graph of two files."""
    files = {"model.pt": b"graph", "nested/weights.bin": b"weights"}
    for name, data in files.items():
        path = folder / KEY / "upload-1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    manifest = ArtifactManifest(
        key=KEY,
        inputs={},
        checkpoints={},
        folder=f"{KEY}/upload-1",
        files=tuple(
            StoredFile(path=name, size_bytes=len(data), sha256="0" * 64)
            for name, data in files.items()
        ),
        compile_seconds=1.0,
        uploaded_at_unix_s=1.0,
    )
    (folder / manifest_key(KEY)).write_bytes(dump_record(manifest))
    return folder


def run(artifacts: Path, target: Path, way: str) -> subprocess.CompletedProcess[str]:
    """As the container does: the text with `python3 -c`."""
    program = Path(find_graphs.__file__).read_text(encoding="utf-8")
    command = [sys.executable, "-I", "-c", program, str(artifacts), KEY, str(target), way]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["link", "copy"])
def test_the_engine_finds_the_graphs_that_the_manifest_names_also_at_a_second_start(
    tmp_path: Path, way: str
) -> None:
    artifacts, target = bucket(tmp_path / "artifacts"), tmp_path / "scratch/graphs"
    for _ in range(2):
        done = run(artifacts, target, way)
        assert done.returncode == 0, done.stderr
        assert (target / "model.pt").read_bytes() == b"graph"
        assert (target / "nested/weights.bin").read_bytes() == b"weights"
        assert target.is_symlink() == (way == "link")


def test_a_bucket_without_the_key_ends_the_start_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    done = run(tmp_path / "artifacts", tmp_path / "graphs", "link")
    assert done.returncode == 1
    assert f"{KEY}/_ARTIFACTS.json: not there" in done.stderr
    assert "next: copy the folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_graphs_that_are_not_whole_are_not_served(tmp_path: Path, damage: str) -> None:
    artifacts = bucket(tmp_path / "artifacts")
    file = artifacts / KEY / "upload-1/nested/weights.bin"
    file.unlink() if damage == "missing" else file.write_bytes(b"w")
    done = run(artifacts, tmp_path / "graphs", "copy")
    assert done.returncode == 1
    assert "weights.bin: not there as" in done.stderr
    assert not (tmp_path / "graphs").exists()
