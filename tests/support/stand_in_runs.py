"""Runs short experiments against stand-in servers on this machine."""

import asyncio
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

from draftworth.measuring.result_files import FolderSink, Sink
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.streamed_request import Client
from draftworth.records.load_shapes import ConcurrencyLoad, Load
from draftworth.records.prompt_files import Case, Prompt
from draftworth.records.results import RunResult, StopWhen
from tests.support.runners import make_runner
from tests.support.specifications import sampling, shape, specification
from tests.support.stream_server import Request, Script, Step, completion, plain
from tests.support.waiting import HANGS_AFTER_SECONDS

COUNTERS = """
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}.0
vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {drafted}.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} 3.0
"""


def server(*chunk_tokens: int, counters: str | None = None, gap_seconds: float = 0.0) -> Script:
    """Return the script of a healthy server, whose answers have one chunk per `chunk_tokens`.

    chunk_tokens: number of tokens in each chunk. gap_seconds: time between two chunks.
    counters: the text of `/metrics`, with places for the counts; None: `/metrics` is not found.
    """
    completions = 0

    def script(request: Request) -> Iterable[Step]:
        nonlocal completions
        if request.path == "/health":
            return plain("200 OK", b"")
        if request.path == "/metrics":
            if counters is None:
                return plain("404 Not Found", b"")
            text = counters.format(
                drafts=10 * completions, drafted=70 * completions, accepted=35 * completions
            )
            return plain("200 OK", text.encode(), "text/plain")
        completions += 1
        return completion(*chunk_tokens, gap_seconds=gap_seconds)

    return script


def case(name: str, prompts: int = 3) -> Case:
    return Case(
        prompt_class="structured",
        name=name,
        prompts=tuple(
            Prompt(id=f"{name}-{i}", messages=({"role": "user", "content": f"{name} {i}"},))
            for i in range(prompts)
        ),
    )


ALONE = ConcurrencyLoad(concurrency=1)
IN_PAIRS = ConcurrencyLoad(concurrency=2)


def spec(
    *urls: str,
    cases: Sequence[Case],
    requests: int = 4,
    deadline_s: float = HANGS_AFTER_SECONDS,
    max_rounds: int = 1,
    target_width: float = 1.0,
    loads: tuple[Load, ...] = (IN_PAIRS,),
    parallel: bool = False,
    stop: StopWhen = "precise",
) -> RunSpec:
    names = ("baseline", "k7")
    return specification(
        tuple(
            Endpoint(variant=n, base_url=u, max_tokens_per_step=8, is_baseline=n == "baseline")
            for n, u in zip(names, urls, strict=False)
        ),
        experiment="test",
        shape=shape(output_tokens=8),
        cases=tuple(cases),
        loads=loads,
        sampling=sampling(
            requests_per_round=requests,
            min_requests=requests,
            max_requests=requests * max_rounds,
            target_interval_width=target_width,
            warmup_requests=1,
            stop=stop,
        ),
        parallel=parallel,
        ready_deadline_seconds=deadline_s,
    )


def run(run_spec: RunSpec, folder: Path, sink: Sink | None = None) -> RunResult:
    runner = make_runner(
        run_spec,
        sink or FolderSink(folder),
        # Without times of waiting for a core, no request is excluded, however busy the machine of
        # the test is. Excluded requests have tests of their own.
        make_client=functools.partial(Client, read_wait=lambda: None),
    )
    return asyncio.run(runner.run())
