"""Builders of runs: a baseline and one variant in two classes, with figures that are consistent."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from draftworth.decision.facts import RunFacts, facts_of
from draftworth.records import results
from draftworth.records.codec import dump_record
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding
from tests.support import blocks as builders
from tests.support.blocks import START_UNIX_S, each_request, make_block, make_record
from tests.support.serving_facts import make_serving_facts

BASELINE, VARIANT = "baseline", "k7"
WINDOW = 8
PROMPTS = 8
TOKENS, STEP_S = 100, 0.030
# A speculative step takes 30 ms, and the baseline takes 10 ms per token. So speculation breaks even
# at 3 tokens per step.
PLAIN_ITL_S = 0.010
TOKENS_PER_STEP: Mapping[str, float] = {"structured": 6.0, "open_ended": 2.0}


# An interruption in which the servers were lost.
LOST = results.Interruption(
    kind="servers",
    at_unix_s=START_UNIX_S + 700,
    lost_s=60.0,
    blocks=("0004-structured-count-c4-k7-r1",),
    reason="k7 is not ready any more: no answer within 5 s",
)


def make_run_result(**overrides: Any) -> results.RunResult:
    fields: dict[str, Any] = {
        "run_id": "built-run",
        "experiment": "built",
        "ended_at_unix_s": START_UNIX_S + 120,
        "variants": (BASELINE, VARIANT),
        "max_tokens_per_step": {BASELINE: 1, VARIANT: WINDOW},
        "target_interval_width": 0.2,
        "class_weights": {"structured": 0.5, "open_ended": 0.5},
        "scheduling": "ordinary",
        "time": results.TimeAccount(measuring_s=54.0, waiting_s=60.0, lost_s=0.0, idle_s=6.0),
    }
    return builders.make_run(**(fields | overrides))


def make_plain_block(block: int, prompt_class: str, /, **overrides: Any) -> results.BlockResult:
    fields: dict[str, Any] = {"variant": BASELINE, "max_tokens_per_step": 1, "speculation": None}
    return _block(
        block, prompt_class, step_s=PLAIN_ITL_S, yields=1.0, apart_s=1e-4, **(fields | overrides)
    )


def make_drafted_block(
    block: int, prompt_class: str, /, *, server_factor: float = 1.0, **overrides: Any
) -> results.BlockResult:
    yields = TOKENS_PER_STEP[prompt_class]
    fields: dict[str, Any] = {
        "variant": VARIANT,
        "max_tokens_per_step": WINDOW,
        "speculation": results.SpeculationCounters(
            drafts=100,
            draft_tokens=(WINDOW - 1) * 100,
            accepted_tokens=round((yields - 1) * 100),
            accepted_per_position=(90, 70, 60, 50, 40, 30, 20),
        ),
        **overrides,
    }
    made = _block(block, prompt_class, step_s=STEP_S, yields=yields, apart_s=1e-5, **fields)
    return _with_server(made, factor=server_factor)


def _block(
    block: int, prompt_class: str, /, *, step_s: float, yields: float, apart_s: float, **fields: Any
) -> results.BlockResult:
    """Return a block in which each request's tokens take a little longer than the last request's.

    step_s: seconds per step. yields: tokens per step. apart_s: how many seconds longer per token.
    """
    records = tuple(
        make_record(
            i,
            request_id=f"run/{block}-{i}",
            inter_token_latency_s=(itl_s := step_s / yields + i * apart_s),
            # 0.25 s until the first token.
            end_to_end_latency_s=0.25 + (TOKENS - 1) * itl_s,
            tokens_per_step=yields,
            chunks=round(1 + (TOKENS - 1) / yields),
            llmperf_inter_token_latency_s=step_s + i * apart_s,
        )
        for i in range(PROMPTS)
    )
    block_fields: dict[str, Any] = {
        "prompt_class": prompt_class,
        "block": block,
        "requests": records,
    }
    return _with_server(make_block(**{"run_id": "built-run", **block_fields, **fields}), factor=1.0)


def _with_server(block: results.BlockResult, *, factor: float) -> results.BlockResult:
    """Return the block with the figures of a server that measured `factor` times our latencies."""
    values = [r.inter_token_latency_s or 0.0 for r in block.requests]
    timings = results.ServerTimings(
        time_per_output_token_sum_s=factor * sum(values),
        time_per_output_token_count=len(values),
    )
    return replace(block, server=timings)


def make_run(*, blocks: tuple[results.BlockResult, ...] | None = None, **overrides: Any) -> Run:
    if blocks is None:
        blocks = two_rounds(
            make_plain_block(1, "structured"),
            make_drafted_block(2, "structured"),
            make_plain_block(3, "open_ended"),
            make_drafted_block(4, "open_ended"),
        )
    listed = tuple(block.stem for block in blocks)
    result = make_run_result(**{"blocks": listed, **overrides})
    run_blocks = (replace(b, run_id=result.run_id, experiment=result.experiment) for b in blocks)
    return Run(result=result, blocks=tuple(run_blocks))


def two_rounds(*blocks: results.BlockResult) -> tuple[results.BlockResult, ...]:
    """Return the blocks, and their copies in a second round: one round alone gives no interval."""
    later = (
        replace(_renamed(block, "-2"), block=block.block + len(blocks), round=2) for block in blocks
    )
    return (*blocks, *later)


def make_facts(run: Run | None = None) -> RunFacts:
    return facts_of(run, {}) if run else _facts_of_the_run()


@cache
def _facts_of_the_run() -> RunFacts:
    return facts_of(make_run(), {})


def write_run(run: Run, folder: Path, *, texts: Mapping[str, str] | None = None) -> Path:
    """Write a run's folder, with a transcript beside each block's result; return the folder.

    texts: the texts of outputs by request id. A transcript has a chunk every 10 ms, of one token
        and one character, until the text is used up.
    """
    (folder / results.BLOCKS_FOLDER).mkdir(parents=True)
    (folder / results.RUN_FILE).write_bytes(dump_record(run.result))
    for block in run.blocks:
        stem = folder / results.BLOCKS_FOLDER / block.stem
        stem.with_name(block.stem + results.RESULT_SUFFIX).write_bytes(dump_record(block))
        lines = [
            _transcript(r, (texts or {}).get(r.request_id, "the same text")) for r in block.requests
        ]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        stem.with_name(block.stem + results.TRANSCRIPT_SUFFIX).write_bytes(gzip.compress(data))
    return folder


def _transcript(record: results.RequestRecord, text: str) -> dict[str, Any]:
    return {
        "request_id": record.request_id,
        "text": text,
        "chunk_offsets_us": [250_000 + 10_000 * i for i in range(record.chunks)],
        "chunk_tokens": [1] * record.chunks,
        "chunk_characters": [int(i < len(text)) for i in range(record.chunks)],
        "token_ids": None,
    }


def with_control(run: Run, *, factor: float = 1.0, rounds: int = 3) -> Run:
    """Return the run with further rounds of the baseline and a control, a second baseline server.

    factor: how many times as long the control takes; a little more in each later round.
    """
    classes = dict.fromkeys(block.prompt_class for block in run.blocks)
    added = (
        _of_control(
            100 + 10 * number + 2 * place,
            name,
            slower=1.0 if variant == BASELINE else factor * (1 + 0.002 * number),
            run_id=run.result.run_id,
            experiment=run.result.experiment,
            variant=variant,
            round=10 + number,
        )
        for number in range(rounds)
        for place, name in enumerate(classes)
        for variant in (BASELINE, results.CONTROL)
    )
    blocks = (*run.blocks, *added)
    variants, stems = (*run.result.variants, results.CONTROL), tuple(b.stem for b in blocks)
    return Run(result=replace(run.result, variants=variants, blocks=stems), blocks=blocks)


def _of_control(
    number: int, prompt_class: str, /, *, slower: float, **place: Any
) -> results.BlockResult:
    block = make_plain_block(number + (place["variant"] != BASELINE), prompt_class, **place)
    return each_request(
        block,
        lambda r: replace(
            r,
            request_id=f"{block.run_id}/{r.request_id}",
            end_to_end_latency_s=(r.end_to_end_latency_s or 0.0) * slower,
            inter_token_latency_s=(r.inter_token_latency_s or 0.0) * slower,
        ),
    )


def with_repetitions(run: Run, count: int, *, between: float = 0.1) -> Run:
    """Return the run with `count` repetitions of its blocks.

    between: how much slower the variant gets with each repetition. The sides swap slots (the
        devices of one server).
    """
    most = max(block.round for block in run.blocks)
    blocks = tuple(
        replace(
            slower(
                _renamed(block, f"-{number}"),
                1.0 if block.variant == BASELINE else 1 + between * number,
            ),
            repetition=number + 1,
            round=block.round + most * number,
            block=block.block + len(run.blocks) * number,
            slot=(number + (block.variant != BASELINE)) % 2,
        )
        for number in range(count)
        for block in run.blocks
    )
    stems = tuple(block.stem for block in blocks)
    result = replace(run.result, repetitions=count, blocks=stems)
    return Run(result=result, blocks=blocks)


def slower(block: results.BlockResult, factor: float) -> results.BlockResult:
    """Return the block with requests that take `factor` times as long from start to end."""
    return each_request(block, lambda r: replace(r, end_to_end_latency_s=r.took_s * factor))


def _renamed(block: results.BlockResult, suffix: str) -> results.BlockResult:
    return each_request(block, lambda r: replace(r, request_id=f"{r.request_id}{suffix}"))


SERVING = make_serving_facts(
    image="registry/vllm:1",
    vllm_version="0.9.0",
    decoding={
        BASELINE: Decoding(method="none"),
        VARIANT: Decoding(method="fused_draft", window=8, draft="Qwen/Qwen3-1.7B"),
    },
)


def structured_run(*loads: int, slow: float = 1.0, **overrides: Any) -> Run:
    """Return a run of one class, in which speculation pays at the first load (a concurrency).

    slow: how many times as long the variant's steps take at each further load.
    """
    blocks = [
        _slowed(make(2 * place + number, "structured", load=ConcurrencyLoad(concurrency=load)), by)
        for place, load in enumerate(loads)
        for number, (make, by) in enumerate(
            ((make_plain_block, 1.0), (make_drafted_block, slow if place else 1.0)), start=1
        )
    ]
    fields = {"class_weights": {"structured": 1.0}, "serving": SERVING, **overrides}
    return make_run(blocks=two_rounds(*blocks), **fields)


def _slowed(block: results.BlockResult, factor: float) -> results.BlockResult:
    return each_request(
        block,
        lambda r: replace(
            r,
            request_id=f"{block.block}-{r.request_id}",
            end_to_end_latency_s=factor * (r.end_to_end_latency_s or 0.0),
            ttft_s=factor * (r.ttft_s or 0.0),
        ),
    )
