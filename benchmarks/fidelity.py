"""Compares how wrongly several clients measure a server that sends tokens at known times.

    python -m benchmarks.fidelity [--clients bare ours aiperf] [--streams 64]

The clients are draftworth's own, a bare asyncio reader and four published tools.
docs/appendix/fidelity.md explains the comparison, and `fidelity.toml` says how each client is run.
A client that is not installed or that fails has the reason in its row of the table.
"""

import argparse
import json
import math
import shlex
import shutil
import statistics
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from draftworth.analysis.statistics import quantile
from draftworth.errors import DraftworthError, counted
from draftworth.truth.token_timeline import TimelineSpec
from draftworth.truth.trial import Trial, attempt, filled

ROOT = Path(__file__).resolve().parents[1]
# A tokenizer for the published tools that need one. Each printable ASCII character is a token, as
# in the server's text, so a tool that tokenizes the whole text or its chunks counts the same tokens
# as the server. Decoding any tokens and encoding them again gives the same tokens, as tools assume.
TOKENIZER = ROOT / "benchmarks" / "tokenizer"
_DECLARED = tomllib.loads((ROOT / "benchmarks" / "fidelity.toml").read_text(encoding="utf-8"))
CLIENTS: Mapping[str, dict[str, Any]] = _DECLARED["clients"]
WINDOWS = {
    n: TimelineSpec().changed(json.dumps(fields)) for n, fields in _DECLARED["windows"].items()
}
MIN_REQUESTS, REQUESTS_PER_STREAM = 4, 2
TIMEOUT_SECONDS = 180.0  # for all requests of one client in one table


def tried(client: str, spec: TimelineSpec, streams: int, requests: int) -> Trial:
    """Run a client against a server that sends tokens at known times; return what both recorded.

    client: its key in `fidelity.toml`. spec: how many tokens the server sends, and when.
    streams: number of requests in flight at the same time. requests: number of all requests.
    DraftworthError: the client failed or cannot run.
    """
    about = CLIENTS[client]
    if streams > about.get("most_streams", streams):
        raise DraftworthError(f"one machine gets at most {about['most_streams']} streams")
    with tempfile.TemporaryDirectory(prefix="fidelity-") as parent:
        folder, tokenizer = Path(parent) / "trial", Path(parent) / "ground-truth"
        folder.mkdir()
        shutil.copytree(TOKENIZER, tokenizer)
        values = {
            "streams": streams,
            "requests": requests,
            "output_tokens": spec.output_tokens,
            "tokenizer": tokenizer,
            "python": sys.executable,
            "root": ROOT,
        }
        return attempt(
            [filled(part, **values) for part in shlex.split(about["command"])],
            spec,
            folder,
            form=about.get("form", "lines"),
            timeout_seconds=TIMEOUT_SECONDS,
            requests=requests,
        )


def figures_of(trial: Trial) -> dict[str, float]:
    """Return a client's figures by name; an error is the client's figure minus the true one.

    Errors in percent are shares of the true figure. A name with "late" is how late the server sent
    its tokens, and one with "queued" how long a request had waited when the server began to handle
    it. A name with "single" is about the errors of single requests; the other errors compare
    quantiles over all requests. It is nan for a client that reports no single requests.
    """
    ttft_ms, true_ttft_ms = trial.reported("ttft_ms"), trial.true("ttft_ms")
    itl_ms = statistics.median(trial.reported("itl_ms"))
    late_ms = [late * 1e3 for truth in trial.truths for late in truth.lateness_s]
    queued_ms = [(truth.handled_ns - truth.arrived_ns) / 1e6 for truth in trial.truths]
    by_prompt = {truth.prompt: truth for truth in trial.truths}
    single = [(row, by_prompt[row["prompt"]]) for row in trial.rows if "prompt" in row]
    single_ttft_ms = [row["ttft_ms"] - truth.ttft_ms for row, truth in single]
    return {
        "ttft_error_median_ms": statistics.median(ttft_ms) - statistics.median(true_ttft_ms),
        "ttft_error_p99_ms": quantile(ttft_ms, 0.99) - quantile(true_ttft_ms, 0.99),
        "itl_error_percent": (itl_ms / statistics.median(trial.true("itl_ms")) - 1) * 100,
        "cpu_s_per_1k_tokens": trial.finished.cpu_seconds / sum(trial.true("output_tokens")) * 1e3,
        "peak_mib": trial.finished.peak_mib,
        "late_median_ms": statistics.median(late_ms),
        "late_p99_ms": quantile(late_ms, 0.99),
        "queued_p99_ms": quantile(queued_ms, 0.99),
        "single_ttft_median_ms": statistics.median(single_ttft_ms or [math.nan]),
        "single_ttft_p99_ms": quantile(single_ttft_ms or [math.nan], 0.99),
        "single_itl_worst_percent": max(
            (abs(row["itl_ms"] / (truth.itl_ms or 1) - 1) * 100 for row, truth in single),
            default=math.nan,
        ),
    }


# By a column's heading: the format string that makes a cell's text from a client's figures.
COLUMNS = {
    "TTFT error ms, median / p99": "{ttft_error_median_ms:+.2f} / {ttft_error_p99_ms:+.2f}",
    "ITL error": "{itl_error_percent:+.3f}%",
    "CPU s per 1k tokens": "{cpu_s_per_1k_tokens:.3f}",
    "memory MiB": "{peak_mib:.0f}",
    "server late ms, median / p99": "{late_median_ms:.2f} / {late_p99_ms:.2f}",
    "queued p99 ms": "{queued_p99_ms:.2f}",
    "single requests: TTFT error ms, median / p99; worst ITL error": (
        "{single_ttft_median_ms:+.3f} / {single_ttft_p99_ms:+.3f}; {single_itl_worst_percent:.3f}%"
    ),
}


def table(clients: Sequence[str], spec: TimelineSpec, streams: int, requests: int) -> str:
    """Return a table in Markdown of how wrong each client's figures are.

    Each client (a key in `fidelity.toml`) sends `requests` requests, `streams` of them at the same
    time, to a server that sends tokens at the times in `spec`. A client that failed has the
    reason in place of its figures.
    """
    lines = [["client", *COLUMNS], ["---"] * (len(COLUMNS) + 1)]
    for client in clients:
        try:
            figures = figures_of(tried(client, spec, streams, requests))
            texts = (words.format(**figures) for words in COLUMNS.values())
            cells = [text.replace("+nan / +nan; nan%", "-") for text in texts]
        except DraftworthError as error:
            cells = [f"left out: {error}".replace("|", "/")[:160], *[""] * (len(COLUMNS) - 1)]
        lines.append([CLIENTS[client]["title"], *cells])
        print(f"{client} done", file=sys.stderr)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measure the clients, and print a table for each window and number of streams."""
    parser = argparse.ArgumentParser(description="clients against a server with known times")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 8, 64, 256])
    options = parser.parse_args()
    for window, streams in product(WINDOWS, options.streams):
        requests = max(MIN_REQUESTS, streams * REQUESTS_PER_STREAM)
        print(f"### Window {window}, {counted(streams, 'stream')}, {requests} requests\n")
        print(table(options.clients, WINDOWS[window], streams, requests))


if __name__ == "__main__":
    main()
