"""The winner's init container: its program, run as in the pod, on a folder instead of a bucket."""

import subprocess
import sys
from pathlib import Path

import pytest

from charts.winner import find_graphs
from tests.pods.compiled_graphs.pods import KEY, put_graphs

FILES = {"model.pt": b"graph", "nested/weights.bin": b"weights"}


def run(artifacts: Path, target: Path, way: str) -> subprocess.CompletedProcess[str]:
    """Run the program's text with `python3 -c`, as the init container does."""
    program = Path(find_graphs.__file__).read_text(encoding="utf-8")
    command = [sys.executable, "-I", "-c", program, str(artifacts), KEY, str(target), way]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["link", "copy"])
def test_the_manifests_graphs_are_found_at_every_start(tmp_path: Path, way: str) -> None:
    artifacts, target = tmp_path / "artifacts", tmp_path / "scratch/graphs"
    put_graphs(artifacts, FILES)
    for _ in range(2):
        done = run(artifacts, target, way)
        assert done.returncode == 0, done.stderr
        assert (target / "model.pt").read_bytes() == b"graph"
        assert (target / "nested/weights.bin").read_bytes() == b"weights"
        assert target.is_symlink() == (way == "link")


def test_a_missing_key_ends_the_start_with_advice(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    done = run(tmp_path / "artifacts", tmp_path / "graphs", "link")
    assert done.returncode == 1
    assert f"{KEY}/_ARTIFACTS.json: not there" in done.stderr
    assert "next: copy the folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_graphs_that_are_not_whole_are_not_served(tmp_path: Path, damage: str) -> None:
    artifacts = tmp_path / "artifacts"
    folder = put_graphs(artifacts, FILES).folder
    file = artifacts / folder / "nested/weights.bin"
    file.unlink() if damage == "missing" else file.write_bytes(b"w")
    done = run(artifacts, tmp_path / "graphs", "copy")
    assert done.returncode == 1
    assert "weights.bin: not there as" in done.stderr
    assert not (tmp_path / "graphs").exists()
