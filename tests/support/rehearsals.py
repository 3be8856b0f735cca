"""The shipped rehearsal, shortened for tests."""

from pathlib import Path

from tests.rehearsal.engines import OUTPUT_TOKENS
from tests.support.experiments import Edit, both, put, write_experiment


def short_rehearsal(folder: Path, *edits: Edit, requests: int = 1, rounds: int = 1) -> Path:
    """Write the shipped rehearsal with one case per class and short outputs; return its path.

    requests: number of requests per case in all rounds together, a multiple of `rounds`.
    """
    return write_experiment(
        folder,
        both(
            put("workload", "classes", 0, "cases", value=["count"]),
            put("workload", "classes", 1, "cases", value=["poem"]),
            put("workload", "output_tokens", value=OUTPUT_TOKENS),
            put("workload", "requests_per_round", value=requests // rounds),
            put("workload", "min_requests", value=requests),
            put("workload", "max_requests", value=requests),
            *edits,
        ),
        base="rehearsal",
    )
