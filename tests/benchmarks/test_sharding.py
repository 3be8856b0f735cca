"""Parts of matrices: each memory of its own, copied once."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from benchmarks.sharding import layer, shards

RANKS = 4


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_are_whole_own_their_memory_and_are_copied_once(axis: int) -> None:
    shapes = {"matrix": (512, 1024, axis)}
    matrices = layer(shapes)
    matrix = matrices["matrix"]
    matrix[:] = np.arange(matrix.size, dtype=np.uint16).reshape(matrix.shape)
    parts = [part["matrix"] for part in shards(matrices, RANKS, shapes)]
    assert np.array_equal(np.concatenate(parts, axis=axis), matrix)
    assert all(part.flags.owndata and part.flags.c_contiguous for part in parts)

    tracemalloc.start()
    try:
        next(shards(matrices, RANKS, shapes))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parts[0].nbytes <= peak_bytes < 1.5 * parts[0].nbytes
