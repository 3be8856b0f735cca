"""Compares the errors of clients against known times: ours, a bare asyncio reader and four peers.

    python -m benchmarks.fidelity --cache FOLDER [--engine .engine-venv] [--peers aiperf guidellm]
        [--llmperf .llmperf-venv]

docs/fidelity.md explains the comparison. A peer that cannot be installed or that fails is a row of
the table with the reason.
"""

import argparse
import dataclasses
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.ground_truth.server import RequestTruth, output_tokens, throughput_token_per_s
from benchmarks.ground_truth.timeline import WINDOWS, TimelineSpec
from benchmarks.peers import PEERS, Job, Observed, UnavailableError, environment_of
from benchmarks.processes import Finished, ProcessFailedError, run_measured
from draftworth.analysis.statistics import quantile
from draftworth.errors import counted
from draftworth.records.load import MAX_LLMPERF_IN_FLIGHT

ROOT = Path(__file__).resolve().parents[1]
# A tokenizer for peers that need one. Each printable ASCII character is a token, as in the server's
# text, so a client that tokenizes the whole text or its chunks counts the same tokens as the
# server. Decoding any tokens and encoding them again gives the same tokens, as peers assume.
TOKENIZER = ROOT / "benchmarks" / "ground_truth" / "tokenizer"
TITLES = {
    "bare": "bare asyncio reader",
    "ours": "draftworth",
    "ours-ray": "draftworth, llmperf on Ray",
}
MIN_REQUESTS = 4


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A row of the comparison: a load, and the timeline `WINDOWS[window]` that the server emits."""

    window: int
    streams: int
    requests: int


# The figures of a client in a cell, by name with the unit. An error is the client's figure minus
# the true one. None: the client does not report the figure.
Row = dict[str, float | None]


@contextmanager
def ground_truth_server(spec: TimelineSpec) -> Iterator[str]:
    """Run the ground-truth server in its own process, and yield its base URL."""
    timeline = json.dumps(dataclasses.asdict(spec))
    command = [sys.executable, "-m", "benchmarks.ground_truth.server", "--timeline", timeline]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 (it is a pipe)
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def measure(client: str, cell: Cell, options: argparse.Namespace) -> Row:
    """Run a client in a cell; raise UnavailableError or ProcessFailedError."""
    with tempfile.TemporaryDirectory() as folder, ground_truth_server(WINDOWS[cell.window]) as url:
        job = Job(
            url=url,
            streams=cell.streams,
            requests=cell.requests,
            output_tokens=WINDOWS[cell.window].output_tokens,
            folder=Path(folder) / "job",
            tokenizer=Path(folder) / "ground-truth",
        )
        shutil.copytree(TOKENIZER, job.tokenizer)
        job.folder.mkdir()
        finished, observed = _run(client, job, options)
        return _row(observed, finished, truths_of(url, cell.requests))


def _run(client: str, job: Job, options: argparse.Namespace) -> tuple[Finished, Observed]:
    peer = PEERS.get(client)
    if peer:
        command = peer.command(environment_of(peer, options.cache, options.engine), job)
    else:
        command = _own_command(client, job, options.llmperf)
    finished = run_measured(
        command,
        folder=job.folder,
        timeout_seconds=options.timeout_seconds,
        environment=peer.environment if peer else {"PYTHONPATH": str(ROOT)},
    )
    try:
        if peer:
            return finished, peer.read(job.folder)
        return finished, Observed(**json.loads(finished.output.strip().splitlines()[-1]))
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise ProcessFailedError(f"its report cannot be read: {error!r}") from error


def _own_command(client: str, job: Job, llmperf: Path) -> list[str | Path]:
    load = [job.url, str(job.streams), str(job.requests)]
    if client != "ours-ray":
        return [sys.executable, "-m", f"benchmarks.clients.{client}", *load]
    python = llmperf / "bin" / "python"
    if not python.exists():
        raise UnavailableError("needs the environment of `make test-llmperf`; --llmperf names it")
    if job.streams > MAX_LLMPERF_IN_FLIGHT:
        raise UnavailableError(
            f"a process a stream, and one machine gets at most {MAX_LLMPERF_IN_FLIGHT}; more need "
            "a Ray cluster"
        )
    return [python, "-m", "benchmarks.clients.ours", *load, "--ray"]


def truths_of(url: str, requests: int) -> list[RequestTruth]:
    """Return the server's records of the last `requests` requests; earlier ones are probes."""
    with urllib.request.urlopen(f"{url}/truth", timeout=60) as answer:  # noqa: S310 (loopback)
        found = [RequestTruth(**value) for value in json.load(answer)]
    complete = [truth for truth in found if truth.complete]
    if len(complete) < requests:
        raise ProcessFailedError(f"only {len(complete)} of {requests} requests were completed")
    return complete[-requests:]


def _row(observed: Observed, finished: Finished, truths: Sequence[RequestTruth]) -> Row:
    ttft_s = [truth.ttft_s for truth in truths]
    itl_s = [truth.itl_s for truth in truths if truth.itl_s is not None]
    late_s = [late for truth in truths for late in truth.lateness_s]
    queued_s = [(truth.handled_ns - truth.arrived_ns) / 1e9 for truth in truths]
    true_throughput = throughput_token_per_s(truths)
    median, p99 = statistics.median(ttft_s), quantile(ttft_s, 0.99)
    itl_median = statistics.median(itl_s)
    return {
        "ttft_error_median_ms": (statistics.median(observed.ttft_s) - median) * 1e3,
        "ttft_error_p99_ms": (quantile(observed.ttft_s, 0.99) - p99) * 1e3,
        "itl_error_percent": (statistics.median(observed.itl_s) / itl_median - 1) * 100,
        "throughput_error_percent": (observed.throughput_token_per_s / true_throughput - 1) * 100,
        "cpu_s_per_1k_tokens": finished.cpu_seconds / output_tokens(truths) * 1000,
        "peak_mib": finished.peak_mib,
        "late_median_ms": statistics.median(late_s) * 1e3,
        "late_p99_ms": quantile(late_s, 0.99) * 1e3,
        "queued_p99_ms": quantile(queued_s, 0.99) * 1e3,
        "requests_seen": len(observed.ttft_s),
        "excluded": observed.excluded,
        **_single_errors(observed, truths),
    }


def _single_errors(observed: Observed, truths: Sequence[RequestTruth]) -> Row:
    by_prompt = {truth.prompt: truth for truth in truths}
    own = [by_prompt[prompt] for prompt in observed.prompts or ()]
    ttft_ms = [(s - t.ttft_s) * 1e3 for s, t in zip(observed.ttft_s, own, strict=False)]
    itl_percent = [
        abs(s / (t.itl_s or s) - 1) * 100 for s, t in zip(observed.itl_s, own, strict=False)
    ]
    return {
        "request_ttft_error_median_ms": statistics.median(ttft_ms) if ttft_ms else None,
        "request_ttft_error_p99_ms": quantile(ttft_ms, 0.99) if ttft_ms else None,
        "request_itl_error_worst_percent": max(itl_percent, default=None),
    }


Results = dict[Cell, dict[str, list[Row] | str]]


def run_all(options: argparse.Namespace) -> Results:
    """Run all clients in all cells, `--rounds` times; a failed client's result is its error."""
    results: Results = {}
    clients = [*TITLES, *options.peers]
    for window, streams in product(options.windows, options.streams):
        requests = max(MIN_REQUESTS, streams * options.requests_per_stream)
        cell = Cell(window=window, streams=streams, requests=requests)
        results[cell] = {client: [] for client in clients}
        for number in range(options.rounds):
            # The machine may be in another state for the first client, so the order alternates.
            for client in clients if number % 2 == 0 else clients[::-1]:
                found = results[cell][client]
                if isinstance(found, str):
                    continue
                try:
                    found.append(measure(client, cell, options))
                except (UnavailableError, ProcessFailedError) as error:
                    results[cell][client] = str(error)
                print(f"window {window}, {streams} streams: {client} done", file=sys.stderr)
    return results


def middle(rows: Sequence[Row]) -> Row:
    """Return each figure's median over the rounds."""
    found = {name: [v for row in rows if (v := row[name]) is not None] for name in rows[0]}
    return {name: statistics.median(v) if v else None for name, v in found.items()}


# By column heading: the format string for a client's figures (a `Row`).
COLUMNS = {
    "TTFT error ms, median / p99": "{ttft_error_median_ms:+.2f} / {ttft_error_p99_ms:+.2f}",
    "ITL error": "{itl_error_percent:+.3f}%",
    "throughput error": "{throughput_error_percent:+.2f}%",
    "CPU s per 1k tokens": "{cpu_s_per_1k_tokens:.3f}",
    "memory MiB": "{peak_mib:.0f}",
    "server late ms, median / p99": "{late_median_ms:.2f} / {late_p99_ms:.2f}",
    "queued p99 ms": "{queued_p99_ms:.2f}",
}
SINGLE_COLUMNS = {
    "TTFT error ms, median / p99": (
        "{request_ttft_error_median_ms:+.3f} / {request_ttft_error_p99_ms:+.3f}"
    ),
    "worst ITL error": "{request_itl_error_worst_percent:.3f}%",
    "excluded": "{excluded:.0f} of {requests_seen:.0f}",
}


def markdown(results: Results) -> str:
    """Return two tables in Markdown for each cell."""
    parts = []
    for cell, rows in results.items():
        kind = "1 token a chunk" if cell.window == 1 else "1 to 8 tokens a chunk"
        streams = counted(cell.streams, "stream")
        own = {client: found for client, found in rows.items() if client in TITLES}
        parts += [
            f"### Window {cell.window} ({kind}), {streams}, {cell.requests} requests",
            _table("client", COLUMNS, rows),
            _table("single requests", SINGLE_COLUMNS, own),
        ]
    return "\n\n".join(parts) + "\n"


def _table(
    first: str, columns: Mapping[str, str], clients: Mapping[str, Sequence[Row] | str]
) -> str:
    lines = [(first, *columns), ["---"] * (len(columns) + 1)]
    for client, found in clients.items():
        title = TITLES.get(client) or f"{client} {PEERS[client].version}"
        if isinstance(found, str):
            reason = " ".join(found.split())[-160:].replace("|", "/")
            lines.append((title, f"left out: {reason}", *[""] * (len(columns) - 1)))
        else:
            figures = middle(found)
            lines.append((title, *(cell.format(**figures) for cell in columns.values())))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="clients against a server with known times")
    add = parser.add_argument
    add("--cache", type=Path, required=True, help="folder for the peers' environments")
    add("--engine", type=Path, default=ROOT / ".engine-venv", help="environment with vllm")
    add("--llmperf", type=Path, default=ROOT / ".llmperf-venv", help="environment with llmperf")
    add("--peers", nargs="*", choices=tuple(PEERS), default=list(PEERS))
    add("--windows", nargs="+", type=int, choices=tuple(WINDOWS), default=list(WINDOWS))
    add("--streams", nargs="+", type=int, default=[1, 8, 64, 256])
    add("--requests-per-stream", type=int, default=2, help=f"at least {MIN_REQUESTS} in all")
    add("--rounds", type=int, default=1, help="the table has medians over them")
    add("--timeout-seconds", type=float, default=180.0, help="for one client in one cell")
    options = parser.parse_args()
    for name in ("cache", "engine", "llmperf"):
        setattr(options, name, getattr(options, name).absolute())
    return options


def main() -> int:
    """Measure all clients and print the tables."""
    options = _options()
    for name in options.peers:  # installed before the measurements
        try:
            environment_of(PEERS[name], options.cache, options.engine)
        except UnavailableError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    print(markdown(run_all(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
