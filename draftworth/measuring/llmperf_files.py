"""A block as llmperf's two files, for tools that read those: requests, and their summary.

Flat keys as `token_benchmark_ray.py` at f1d6bed writes them. The figures are OURS (llmperf's own
inter-token latency divides by chunks); only the names are llmperf's.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from draftworth.analysis.statistics import quantile
from draftworth.metrics import definitions
from draftworth.records.codec import dump_json
from draftworth.records.results import BlockResult, values_of

_QUANTILES = (25, 50, 75, 90, 95, 99)
# What llmperf summarizes of a request.
_SUMMARIZED = (
    "inter_token_latency_s",
    "ttft_s",
    "end_to_end_latency_s",
    "request_output_throughput_token_per_s",
    "number_output_tokens",
    "number_input_tokens",
)


def llmperf_responses(block: BlockResult) -> bytes:
    """The block as llmperf's `*_individual_responses.json`: its fields, then ours."""
    names = ("experiment", "variant", "prompt_class", "case", "round", "run_id")
    context = {name: getattr(block, name) for name in names}
    return dump_json([{**asdict(record), **context} for record in block.requests])


def llmperf_summary(block: BlockResult) -> bytes:
    """The bytes of the summary file of a block."""
    count, failed = len(block.requests), sum(record.failed for record in block.requests)
    codes = Counter(str(r.error_code) for r in block.requests if r.failed)
    seconds = block.output_seconds
    summary: dict[str, object] = {
        "version": "draftworth",
        "name": block.stem,
        "model": block.model,
        "num_concurrent_requests": getattr(block.load, "concurrency", None),
    }
    for metric in definitions.METRICS:
        if metric.field in _SUMMARIZED:
            summary |= _statistics(metric.field, values_of(block.requests, metric.field))
    summary |= {
        "results_num_requests_started": count,
        "results_error_rate": failed / count if count else None,
        "results_number_errors": failed,
        "results_error_code_frequency": json.dumps(codes),
        "results_mean_output_throughput_token_per_s": block.output_throughput_token_per_s,
        "results_num_completed_requests": count - failed,
        "results_num_completed_requests_per_min": (count - failed) / seconds * 60
        if seconds > 0
        else None,
        "timestamp": block.started_at_unix_s,
    }
    return dump_json(summary, indent=1)


def _statistics(name: str, values: Sequence[float]) -> dict[str, float | None]:
    prefix = f"results_{name}"
    quantiles = {q: quantile(values, q / 100) if values else None for q in _QUANTILES}
    return {
        **{f"{prefix}_quantiles_p{q}": value for q, value in quantiles.items()},
        f"{prefix}_mean": statistics.fmean(values) if values else None,
        f"{prefix}_min": min(values, default=None),
        f"{prefix}_max": max(values, default=None),
        f"{prefix}_stddev": statistics.stdev(values) if len(values) > 1 else None,
    }
