"""The runner: in what order it measures, which files it writes, and failures; over real HTTP."""

import gzip
import json
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from draftworth.analysis.checks import server_check
from draftworth.measuring.result_files import FolderSink, SinkError, llmperf_summary
from draftworth.measuring.server_counters import (
    parse_metrics,
    prefix_cache_between,
    restarted,
    server_start,
    speculation_between,
)
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.records.results import (
    RESULT_SUFFIX,
    PrefixCacheCounters,
    ServerStart,
    SpeculationCounters,
)
from draftworth.records.run_folder import Run, read_run
from tests.support.blocks import make_block, make_record
from tests.support.stand_in_runs import ALONE, COUNTERS, IN_PAIRS, case, run, server, spec
from tests.support.stream_server import (
    Request,
    Script,
    Step,
    Write,
    completion,
    plain,
    stream_server,
)

# Metrics of a server's start as vLLM Neuron writes them, without their HELP lines.
START = """
# TYPE vllm_neuron:startup_time_seconds gauge
vllm_neuron:startup_time_seconds{{model_name="tiny"}} 900.5
vllm_neuron:compilation_time_seconds{{bucket_name="prefill_s128",model_name="tiny"}} 200.0
vllm_neuron:compilation_time_seconds{{bucket_name="decode_b4",model_name="tiny"}} 400.0
vllm_neuron:model_load_time_seconds{{model_name="tiny"}} 20.0
vllm_neuron:model_load_size_bytes{{model_name="tiny"}} 1.6e+10
"""


def histogram_server() -> Script:
    """Return a server with vLLM's histogram of the time per output token, of finished requests."""
    seconds: list[float] = []

    def stream(tokens: int) -> Iterator[Step]:
        times = []
        for step in completion(*[1] * tokens, gap_seconds=0.02):
            yield step
            if isinstance(step, Write):
                times.append(time.perf_counter())
        # Two writes (headers and role) come before the tokens, two (usage and end) after them.
        seconds.append((times[-3] - times[2]) / (tokens - 1))

    def script(request: Request) -> Iterable[Step]:
        if request.method == "POST":
            return stream(request.json["max_tokens"])
        name = "vllm:request_time_per_output_token_seconds"
        text = f"{name}_sum {sum(seconds)}\n{name}_count {len(seconds)}\n"
        return plain("200 OK", text.encode() if request.path == "/metrics" else b"")

    return script


@pytest.fixture(scope="module")
def two_variants(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """Measure two cases on two servers, one with a draft; return the run's folder and the run."""
    folder = tmp_path_factory.mktemp("two")
    with (
        stream_server(server(1, 1, 1, 1)) as a,
        stream_server(server(2, 3, counters=COUNTERS + START)) as b,
    ):
        cases = [case("count"), case("repeat")]
        run(spec(a.base_url, b.base_url, cases=cases, loads=(ALONE,)), folder)
    return folder / "test-1", read_run(folder / "test-1")


def test_a_servers_report_of_its_start_is_recorded(two_variants: tuple[Path, Run]) -> None:
    _, measured = two_variants
    start = ServerStart(
        startup_s=900.5, compilation_s=600.0, graphs=2, load_s=20.0, load_bytes=1.6e10
    )
    assert measured.result.server_starts == {"k7": start}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("vllm:other 1\n", None),
        ("vllm_neuron:startup_time_seconds 9\n", ServerStart(startup_s=9.0)),
        ("vllm_neuron:startup_time_seconds 1e18\n", None),
        ("vllm_neuron:startup_time_seconds -1\n", None),
    ],
)
def test_a_start_that_cannot_be_is_not_there(text: str, start: ServerStart | None) -> None:
    assert server_start(parse_metrics(text)) == start
    # A gauge that falls is no restart.
    assert not restarted(
        parse_metrics("vllm_neuron:startup_time_seconds 10\n"), parse_metrics(text)
    )


def test_every_case_is_run_against_every_variant(
    two_variants: tuple[Path, Run],
) -> None:
    _, measured = two_variants
    assert [b.case for b in measured.blocks] == ["count", "count", "repeat", "repeat"]
    assert {(b.case, b.variant) for b in measured.blocks} == {
        (c, v) for c in ("count", "repeat") for v in ("baseline", "k7")
    }
    assert measured.result.status == "complete"
    assert measured.result.blocks == tuple(b.stem for b in measured.blocks)
    # Each block and `run.json` have this figure, so a reader of one file needs no other.
    assert {b.max_tokens_per_step for b in measured.blocks} == {8}
    assert set(measured.result.max_tokens_per_step.values()) == {8}
    for block in measured.blocks:  # both variants get the same prompts in the same order
        numbers = [r.prompt_id.removeprefix(f"{block.case}-") for r in block.requests]
        assert numbers == ["0", "1", "2", "0"]


def test_a_ladder_is_measured_rung_by_rung(tmp_path: Path) -> None:
    rungs = (ALONE, ConcurrencyLoad(concurrency=3), PoissonLoad(requests_per_second=50.0))
    with stream_server(server(1, 1)) as plain_server:
        run(spec(plain_server.base_url, cases=[case("count")], loads=rungs), tmp_path)

    blocks = read_run(tmp_path / "test-1").blocks
    assert [(b.load.label, len(b.requests)) for b in blocks] == [("c1", 4), ("c3", 4), ("p50", 4)]


@pytest.mark.parametrize(
    ("load", "warmup", "halves"), [(ALONE, [8], []), (IN_PAIRS, [7, 8], ["count 7"])]
)
def test_prompts_follow_in_order_from_warm_up_onwards(
    tmp_path: Path, load: Load, warmup: list[int], halves: list[str]
) -> None:
    with stream_server(server(1, 1)) as plain_server:
        run(spec(plain_server.base_url, cases=[case("count", 9)], loads=(load,)), tmp_path)

    _gate, *bodies = [r.json for r in plain_server.requests if r.path == "/v1/chat/completions"]
    texts = [body["messages"][0]["content"] for body in bodies]
    measured = [text for text in texts if text.startswith("count ")]
    assert sorted(measured) == [f"count {n}" for n in range(4)]
    # The others begin with a number, so that no measured prompt is in a server's prefix cache.
    unmeasured = [text for text in texts if text not in measured]
    assert all(re.fullmatch(r"[0-9]{4}\ncount [0-9]", text) for text in unmeasured)
    numbers = sorted(int(text.split()[2]) for text in unmeasured)
    # The number of fillers is not fixed: the server may not have read one that was cancelled soon.
    fillers = [(4 + n) % 9 for n in range(len(numbers) - len(warmup))]
    assert numbers == sorted([*warmup, *fillers])
    # Of two warm-up requests that start together, the first asks for half an output, so that they
    # do not end together.
    half = [b["messages"][0]["content"][5:] for b in bodies if b["max_tokens"] == 4]
    assert half == halves
    # Neither warm-up nor fillers are recorded.
    block = read_run(tmp_path / "test-1").blocks[0]
    assert (len(block.requests), block.warmup_requests) == (4, len(warmup))
    assert len(fillers) <= block.fillers
    assert block.fillers == 0 or load == IN_PAIRS


@pytest.mark.parametrize("load", [ALONE, ConcurrencyLoad(concurrency=4)])
def test_the_servers_histogram_has_our_requests(tmp_path: Path, load: Load) -> None:
    with stream_server(histogram_server()) as timed:
        run(spec(timed.base_url, cases=[case("count")], loads=(load,)), tmp_path)

    (block,) = read_run(tmp_path / "test-1").blocks
    check = server_check([block])
    assert check is not None
    assert check.requests >= block.warmup_requests + len(block.requests) - 1
    assert check.requests == len(block.requests) + block.others.inter_token_latency_count
    # A busy machine changes both the server's and the client's figures, so this limit is wide; the
    # benchmarks measure how close the two are.
    assert abs(check.difference) < 0.5


@pytest.mark.parametrize(("prefix", "is_read"), [("vllm", True), ("llamacpp", True), ("x", False)])
def test_counters_are_read_under_each_engines_prefix(prefix: str, is_read: bool) -> None:
    texts = (COUNTERS.format(drafts=n, drafted=8 * n, accepted=4 * n) for n in (1, 3))
    before, after = (parse_metrics(text.replace("vllm:", f"{prefix}:")) for text in texts)
    added = SpeculationCounters(
        drafts=2, draft_tokens=16, accepted_tokens=8, accepted_per_position=(0,)
    )
    assert speculation_between(before, after) == (added if is_read else None)


@pytest.mark.parametrize(
    ("queries", "hits", "added"),
    [
        ((100, 400), (20, 170), PrefixCacheCounters(queried_tokens=300, cached_tokens=150)),
        ((0, 0), (0, 0), PrefixCacheCounters(queried_tokens=0, cached_tokens=0)),
        ((400, 100), (170, 20), None),  # the server restarted
        ((100, 400), (0, 301), None),
        ((100, 400), None, None),
    ],
)
def test_prefix_cache_counters_are_the_difference(
    queries: tuple[int, int], hits: tuple[int, int] | None, added: PrefixCacheCounters | None
) -> None:
    before, after = (
        parse_metrics(
            f"vllm:prefix_cache_queries_total {queries[i]}\n"
            + (f'vllm:prefix_cache_hits_total{{engine="0"}} {hits[i]}\n' if hits else "")
        )
        for i in (0, 1)
    )
    assert prefix_cache_between(before, after) == added


def test_speculation_counters_are_the_difference_over_the_block(
    two_variants: tuple[Path, Run],
) -> None:
    _, measured = two_variants
    counted = [b.speculation for b in measured.blocks if b.variant == "k7"]
    assert [c.drafts for c in counted if c] == [50, 50]
    assert counted[0] is not None
    assert counted[0].accepted_tokens / counted[0].draft_tokens == pytest.approx(0.5)
    assert counted[0].accepted_per_position == (0,)
    assert all(b.speculation is None for b in measured.blocks if b.variant == "baseline")


def test_evidence_and_llmperfs_files_accompany_the_result(
    two_variants: tuple[Path, Run],
) -> None:
    folder, measured = two_variants
    block = next(b for b in measured.blocks if b.variant == "k7")
    stem = f"{folder}/blocks/{block.stem}"
    evidence = gzip.decompress(Path(f"{stem}.transcript.jsonl.gz").read_bytes())
    lines = [json.loads(line) for line in evidence.splitlines()]
    responses = json.loads(Path(f"{stem}_individual_responses.json").read_text())
    summary = json.loads(Path(f"{stem}_summary.json").read_text())

    assert len(lines) == 4
    assert lines[0]["text"] == "xxxxx"
    assert lines[0]["chunk_tokens"] == lines[0]["chunk_characters"] == [2, 3]
    assert len(lines[0]["chunk_offsets_us"]) == 2
    assert Path(f"{stem}{RESULT_SUFFIX}").exists()
    assert (responses[0]["number_output_tokens"], responses[0]["variant"]) == (5, "k7")
    assert summary["results_num_completed_requests"] == 4
    assert summary["results_number_output_tokens_quantiles_p50"] == 5
    assert summary["results_ttft_s_quantiles_p99"] > 0


def test_llmperfs_requests_per_minute_exclude_the_warm_up() -> None:
    """Two requests at a time that take two seconds each are 60 per minute.

    For what else the block's 600 s were spent does not count.
    """
    records = tuple(make_record(n, end_to_end_latency_s=2.0) for n in range(4))
    block = make_block(
        load=IN_PAIRS, requests=records, started_at_unix_s=0.0, ended_at_unix_s=600.0
    )
    summary = json.loads(llmperf_summary(block))
    assert summary["results_num_completed_requests_per_min"] == pytest.approx(60)


def test_failures_keep_the_load_and_are_recorded(tmp_path: Path) -> None:
    healthy = server(1, 1)

    def every_other_fails(request: Request) -> Iterable[Step]:
        content = request.json["messages"][0]["content"] if request.body else ""
        if content.endswith("1"):
            return plain("500 Internal Server Error", b"boom")
        return healthy(request)

    with stream_server(every_other_fails) as flaky:
        result = run(spec(flaky.base_url, cases=[case("count")], requests=6), tmp_path)

    block = read_run(tmp_path / "test-1").blocks[0]
    assert [r.error_code for r in block.requests] == [None, 500, None, None, 500, None]
    assert result.status == "complete"


class FlakySink:
    """Writes files, but refuses the first `refusals` writes."""

    def __init__(self, folder: Path, *, refusals: int) -> None:
        self._inner = FolderSink(folder)
        self._refusals = refusals

    def write(self, name: str, data: bytes) -> None:
        if self._refusals:
            self._refusals -= 1
            raise SinkError(f"{name}: no space")
        self._inner.write(name, data)


def test_a_failed_write_is_tried_again_and_reported(tmp_path: Path) -> None:
    with stream_server(server(1, 1)) as plain_server:
        run_spec = spec(plain_server.base_url, cases=[case("count")])
        later = run(run_spec, tmp_path / "a", FlakySink(tmp_path / "a", refusals=3))
        never = run(run_spec, tmp_path / "b", FlakySink(tmp_path / "b", refusals=8))

    assert later.status == "complete"
    assert len(read_run(tmp_path / "a" / "test-1").blocks) == 1
    assert never.status == "failed"
    assert "0001-structured-count-c2-baseline-r1.result.json" in never.reason
