"""llmperf's `*_summary.json`, computed from our records, for tools that read it.

Flat keys as `token_benchmark_ray.py` at f1d6bed writes them. The figures are OURS (llmperf's own
inter-token latency divides by chunks); only the names are llmperf's.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence

from draftworth.analysis import metrics
from draftworth.analysis.statistics import quantile
from draftworth.records.results import LLMPERF_FIELDS, BlockResult, values_of

_QUANTILES = (25, 50, 75, 90, 95, 99)


def llmperf_summary(block: BlockResult) -> bytes:
    """The bytes of the summary file of a block."""
    done = [record for record in block.requests if not record.failed]
    codes = Counter(str(r.error_code) for r in block.requests if r.failed)
    seconds = block.ended_at_unix_s - block.started_at_unix_s
    summary: dict[str, object] = {
        "version": "draftworth",
        "name": block.stem,
        "model": block.model,
        "num_concurrent_requests": getattr(block.load, "concurrency", None),
    }
    for metric in metrics.METRICS:
        if metric.field in LLMPERF_FIELDS:
            summary |= _statistics(metric.field, values_of(block.requests, metric.field))
    summary |= {
        "results_num_requests_started": len(block.requests),
        "results_error_rate": (len(block.requests) - len(done)) / len(block.requests)
        if block.requests
        else None,
        "results_number_errors": len(block.requests) - len(done),
        "results_error_code_frequency": json.dumps(codes),
        "results_mean_output_throughput_token_per_s": block.output_throughput_token_per_s,
        "results_num_completed_requests": len(done),
        "results_num_completed_requests_per_min": len(done) / seconds * 60 if seconds > 0 else None,
        "timestamp": block.started_at_unix_s,
    }
    return json.dumps(summary, indent=1).encode() + b"\n"


def _statistics(metric: str, values: Sequence[float]) -> dict[str, float | None]:
    prefix = f"results_{metric}"
    row: dict[str, float | None] = {
        f"{prefix}_quantiles_p{q}": quantile(values, q / 100) if values else None
        for q in _QUANTILES
    }
    row[f"{prefix}_mean"] = statistics.fmean(values) if values else None
    row[f"{prefix}_min"] = min(values, default=None)
    row[f"{prefix}_max"] = max(values, default=None)
    row[f"{prefix}_stddev"] = statistics.stdev(values) if len(values) > 1 else None
    return row
