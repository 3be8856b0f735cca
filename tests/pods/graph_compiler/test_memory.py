"""What the kernel says of a pod's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pods.graph_compiler.memory import PodMemory


def said(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"memory.{name}").write_text(text)
    return folder


def test_the_kernels_own_peak_counts(tmp_path: Path) -> None:
    with PodMemory(said(tmp_path, peak="70\n", current="50\n", max="100\n")) as memory:
        pass
    assert (memory.peak_bytes, memory.limit_bytes) == (70, 100)


def test_without_a_peak_the_largest_sample_does(tmp_path: Path) -> None:
    with PodMemory(said(tmp_path, current="50\n"), sample_seconds=60.0) as memory:
        said(tmp_path, current="80\n")
    said(tmp_path, current="10\n")
    assert memory.peak_bytes == 80


@pytest.mark.parametrize("files", [{}, {"peak": "?", "current": "", "events": "oom_kill"}])
def test_where_the_kernel_says_nothing_nothing_is_known(
    tmp_path: Path, files: dict[str, str]
) -> None:
    if "events" in files:
        files = {**files, "events": "low 0\n"}
    with PodMemory(said(tmp_path, **files)) as memory:
        pass
    assert (memory.peak_bytes, memory.limit_bytes, memory.kills) == (None, None, 0)


def test_kills_of_before_are_not_counted(tmp_path: Path) -> None:
    with PodMemory(said(tmp_path, events="low 0\noom_kill 2\n")) as memory:
        assert memory.kills == 0
        said(tmp_path, events="low 0\noom_kill 3\n")
    assert memory.kills == 1
