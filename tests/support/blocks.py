"""Makes records, blocks and runs for tests: each test states only the values that it needs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from draftworth.records import results
from draftworth.records.load_shapes import ConcurrencyLoad

# 2026-11-20T10:00:00Z, the start of a minute.
START_UNIX_S = 1_795_168_800.0
SECONDS_PER_REQUEST = 2.0


def make_record(index: int = 0, **overrides: Any) -> results.RequestRecord:
    """Return the record of a good request; each `index` gives another start and other figures."""
    fields: dict[str, Any] = {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": 0.015 + index * 1e-6,
        "ttft_s": 0.25 + index * 1e-6,
        "end_to_end_latency_s": 1.75 + index * 1e-6,
        "request_output_throughput_token_per_s": 57.0 + index * 1e-3,
        "number_total_tokens": 164,
        "number_output_tokens": 100,
        "number_input_tokens": 64,
        "request_id": f"request-{index}",
        "prompt_id": f"prompt-{index % 8}",
        "started_at_unix_s": START_UNIX_S + index * SECONDS_PER_REQUEST,
        "tokens_per_step": 3.5,
        "first_chunk_tokens": 1,
        "chunks": 30,
        "usage_source": "every_chunk",
        "finish_reason": "length",
        "output_sha256": "0" * 64,
        "run_queue_wait_s": 0.0,
        "excluded": None,
        "llmperf_inter_token_latency_s": 0.05,
    }
    return results.RequestRecord(**{**fields, **overrides})


def make_failed_record(index: int = 0, **overrides: Any) -> results.RequestRecord:
    """Return the record of a request that failed with status 500 and so has no figures."""
    fields: dict[str, Any] = {
        "error_code": 500,
        "error_msg": "the server answered 500",
        "request_id": f"request-{index}",
        "prompt_id": f"prompt-{index % 8}",
        "started_at_unix_s": START_UNIX_S + index * SECONDS_PER_REQUEST,
        "chunks": 0,
        "usage_source": "none",
        "run_queue_wait_s": 0.0,
    }
    return results.RequestRecord(**{**fields, **overrides})


def make_block(*, request_count: int = 3, **overrides: Any) -> results.BlockResult:
    """Return the result of a block of good requests, which start `SECONDS_PER_REQUEST` apart."""
    requests = tuple(make_record(index) for index in range(request_count))
    fields: dict[str, Any] = {
        "run_id": "20261120-100000-a1b2c3",
        "experiment": "qwen3-32b",
        "variant": "qwen3-1.7b-k7",
        "prompt_class": "structured",
        "case": "count",
        "round": 1,
        "block": 3,
        "model": "Qwen/Qwen3-32B",
        "load": ConcurrencyLoad(concurrency=4),
        "started_at_unix_s": START_UNIX_S,
        "ended_at_unix_s": START_UNIX_S + max(request_count, 1) * SECONDS_PER_REQUEST,
        "warmup_requests": 2,
        "speculation": results.SpeculationCounters(
            drafts=100, draft_tokens=700, accepted_tokens=525
        ),
        "server": None,
        "requests": requests,
    }
    return results.BlockResult(**{**fields, **overrides})


def make_run(*blocks: results.BlockResult, **overrides: Any) -> results.RunResult:
    """Return the result of a complete run of a baseline and one variant, which lists `blocks`."""
    fields: dict[str, Any] = {
        "run_id": "20261120-100000-a1b2c3",
        "experiment": "qwen3-32b",
        "status": "complete",
        "reason": "",
        "started_at_unix_s": START_UNIX_S,
        "ended_at_unix_s": START_UNIX_S + 600,
        "variants": ("baseline", "qwen3-1.7b-k7"),
        "baseline": "baseline",
        "blocks": tuple(block.stem for block in blocks),
        "max_tokens_per_step": {"baseline": 1, "qwen3-1.7b-k7": 7},
        "target_interval_width": 0.1,
        "class_weights": {"structured": 1.0},
        "price": None,
        "load_generator": "llmperf",
        "scheduling": "real-time (SCHED_FIFO 1)",
        "time": results.TimeAccount(measuring_s=534.0, waiting_s=60.0, lost_s=0.0, idle_s=6.0),
        "interruptions": (),
    }
    return results.RunResult(**{**fields, **overrides})


def make_price(**overrides: Any) -> results.Price:
    """Return a price of 10 USD per node-hour; `baseline` and `k7` each use a quarter of a node."""
    fields: dict[str, Any] = {
        "usd_per_node_hour": 10.0,
        "as_of": "2026-03-15",
        "source": "Spot",
        "node_shares": {"baseline": 0.25, "k7": 0.25},
        "nodes": 1,
    }
    return results.Price(**{**fields, **overrides})


def each_request(
    block: results.BlockResult, change: Callable[[results.RequestRecord], results.RequestRecord]
) -> results.BlockResult:
    return replace(block, requests=tuple(map(change, block.requests)))
