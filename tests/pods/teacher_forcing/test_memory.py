"""Whether a model fits, by its folder alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pods.teacher_forcing import memory


def test_memory_is_what_can_be_had_not_what_nobody_uses(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 5 kB\n")

    assert memory.available_bytes(meminfo) == 5 * 2**10
    assert memory.available_bytes(tmp_path / "none") > 2**20


@pytest.mark.parametrize(("free_kb", "fits"), [(2**20 + 2, True), (2**20 + 1, False)])
def test_weights_need_room_to_work_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_kb: int, fits: bool
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemAvailable: {free_kb} kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").write_bytes(b"0" * 2**10)

    assert memory.fits(tmp_path) is fits
