"""What weights that are written as shards could save of a start: cutting them, by one core.

    python -m benchmarks.sharding [--experiment FILE] [--tensor-parallel-size N]

A server that shards while it loads reads a checkpoint once and cuts each matrix into a part for
every rank; shards that were written before spare the cutting alone, for they are as large. The
matrices are those of one layer of Qwen3-32B (its configuration: 5120 wide, 64 heads and 8 for keys
of 128, 25,600 in the feed-forward part). Beside it stands what reading the experiment's checkpoints
takes by the assumptions of docs/timeline.md. Nothing was measured on a Neuron device.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from draftworth.errors import DraftworthError
from draftworth.planning.assumptions import assumption_data
from draftworth.planning.loading_time import transfer_minutes
from draftworth.planning.resolved import load_neuron

EXPERIMENT = Path(__file__).resolve().parents[1] / "experiments" / "qwen3-32b.yaml"
RANKS = 32
REPEATS = 5
# Rows, columns, and the axis along which a rank's part is cut.
LAYER: Mapping[str, tuple[int, int, int]] = {
    "q": (8192, 5120, 0),
    "k": (1024, 5120, 0),
    "v": (1024, 5120, 0),
    "o": (5120, 8192, 1),
    "gate": (25600, 5120, 0),
    "up": (25600, 5120, 0),
    "down": (5120, 25600, 1),
}

Matrix = NDArray[np.uint16]


def layer(shapes: Mapping[str, tuple[int, int, int]] = LAYER) -> dict[str, Matrix]:
    """Matrices of 16-bit numbers, every page of which was written."""
    return {
        name: np.ones((rows, columns), np.uint16) for name, (rows, columns, _) in shapes.items()
    }


def shards(
    matrices: Mapping[str, Matrix],
    ranks: int,
    shapes: Mapping[str, tuple[int, int, int]] = LAYER,
) -> Iterator[dict[str, Matrix]]:
    """Each rank's part of every matrix, as memory of its own."""
    for rank in range(ranks):
        yield {
            name: np.array_split(matrix, ranks, axis=shapes[name][2])[rank].copy()
            for name, matrix in matrices.items()
        }


def seconds_a_gib(ranks: int) -> float:
    """To cut a GiB of weights, the fastest of several times."""
    matrices = layer()
    gib = sum(matrix.nbytes for matrix in matrices.values()) / 2**30
    taken = []
    for _ in range(REPEATS):
        before = time.perf_counter()
        for _shard in shards(matrices, ranks):
            pass
        taken.append(time.perf_counter() - before)
    return min(taken) / gib


def main() -> int:
    """Print what cutting takes beside what reading takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiment", type=Path, default=EXPERIMENT)
    parser.add_argument("--tensor-parallel-size", type=int, default=RANKS)
    arguments = parser.parse_args()
    try:
        experiment = load_neuron(arguments.experiment)
    except DraftworthError as error:
        print(f"sharding: {error}", file=sys.stderr)
        return error.exit_code
    assumed = assumption_data().for_target(experiment.spec.target.model)
    reading = transfer_minutes(experiment.spec.models, assumed, "load_gbit_per_s") * 60
    gib = sum(
        model.facts.checkpoint_gib
        for model in experiment.spec.models
        if model.facts and model.facts.checkpoint_gib
    )
    one = seconds_a_gib(arguments.tensor_parallel_size)
    print(f"cutting for {arguments.tensor_parallel_size} ranks, one core: {1 / one:.1f} GiB/s")
    print(f"{experiment.name}, {gib:.1f} GiB: cutting {gib * one:.0f} s, reading "
          f"{reading.text(digits=0)} s")  # fmt: skip
    print(f"shards that are there save at most {gib * one / reading.best:.0%} of loading")
    return 0


if __name__ == "__main__":
    sys.exit(main())
