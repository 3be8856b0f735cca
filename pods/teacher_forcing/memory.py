"""Whether a model fits into the memory that is free, by its folder alone. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

# Beside the weights: activations and the logits of a batch.
SPARE_BYTES = 2**30
MEMINFO = Path("/proc/meminfo")


def weights_bytes(folder: Path) -> int:
    """Size of a model's weights."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def fits(folder: Path) -> bool:
    """Whether its weights and what it takes to work with them find room now."""
    return weights_bytes(folder) + SPARE_BYTES <= available_bytes(MEMINFO)


def available_bytes(meminfo: Path) -> int:
    """Memory that a program can have: what is free, and what the page cache would give back."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 2**10 for line in lines if line.startswith("MemAvail"))
    except (OSError, ValueError, IndexError, StopIteration):  # no Linux
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
