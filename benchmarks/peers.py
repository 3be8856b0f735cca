"""Other tools with pinned versions: how each is installed and run, and how its report is read.

Each tool sends `requests` chat completions with `streams` in flight and prompts of 16 tokens; it
uses the server's token counts if it can. ITL is what the tool reports as time per output token:

- aiperf: `inter_token_latency` of `profile_export.jsonl`. If each chunk reports usage, aiperf does
  not divide by the first chunk's tokens. Throughput: `output_token_throughput` of its JSON export.
- guidellm: `inter_token_latency_ms` of each successful request in its JSON. Throughput: the mean of
  the distribution `output_tokens_per_second`.
- vllm bench serve: its TPOT, (E2E - TTFT) / (N - 1), calculated from TTFT and E2E of
  `--save-detailed`, because its own ITL is per chunk. Throughput: `output_throughput`.
- inference-perf: `time_per_output_token` of its per-request report. Throughput:
  `output_tokens_per_sec` of its summary. Its prompts share four tokens, because its only offline
  data set for chat has shared prefixes.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INSTALL_TIMEOUT_SECONDS = 900.0
PROMPT_TOKENS = 16
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
QUIET = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_TARGET_DEVICE": "cpu"}
_HERE = f"python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A client's figures: TTFT and ITL of each request in seconds, and its output throughput.

    itl_s: the time per output token after the first, by the client's own definition.
    excluded: the number of samples that the client excludes.
    prompts: the prompt of each request, to find its `RequestTruth`; None if not reported.
    """

    ttft_s: Sequence[float]
    itl_s: Sequence[float]
    throughput_token_per_s: float
    excluded: int = 0
    prompts: Sequence[str] | None = None


class UnavailableError(Exception):
    """A peer cannot run here; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Says which requests a tool must send, and which folders hold its files and a tokenizer."""

    url: str
    streams: int
    requests: int
    output_tokens: int
    folder: Path
    tokenizer: Path


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A tool. `command` makes its command line (from its `bin` folder); `read` reads its report."""

    name: str
    version: str
    command: Callable[[Path, Job], list[str | Path]]
    read: Callable[[Path], Observed]
    interpreters: Sequence[str] = ("python3.11", "python3.12", _HERE)
    environment: Mapping[str, str] = field(default_factory=lambda: QUIET | OFFLINE)


def environment_of(peer: Peer, cache: Path, engine: Path) -> Path:
    """Install a peer if it is not installed; return its `bin` folder. Raises UnavailableError."""
    if peer.name == "vllm-bench":
        return _engine_environment(engine)
    folder = cache / f"{peer.name}-{peer.version}"
    done = folder / ".installed"
    if not done.exists():
        _install(peer, folder)
        done.touch()
    return folder / "bin"


def _install(peer: Peer, folder: Path) -> None:
    python = next(filter(None, map(shutil.which, peer.interpreters)), None)
    if python is None:
        raise UnavailableError(f"needs {' or '.join(peer.interpreters)} on PATH")
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for command in (
        [python, "-m", "venv", str(folder)],
        [*pip, "--disable-pip-version-check", f"{peer.name}=={peer.version}"],
    ):
        try:
            subprocess.run(
                command, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_SECONDS
            )
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip()[-300:]
            raise UnavailableError(f"installation failed: {reason}") from error
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"no end within {INSTALL_TIMEOUT_SECONDS:.0f} s") from error


def _engine_environment(engine: Path) -> Path:
    python = engine / "bin" / "python"
    if not python.exists():
        raise UnavailableError("needs the engine of `make rehearse`; name it with --engine")
    code = "import importlib.metadata as m; print(m.version('vllm'))"
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if answer.stdout.strip() != VLLM_BENCH.version:
        found = answer.stdout.strip() or "none"
        raise UnavailableError(f"needs vllm {VLLM_BENCH.version}, the engine has {found}")
    return python.parent


def _aiperf(binaries: Path, job: Job) -> list[str | Path]:
    return [
        *(binaries / "aiperf", "profile", "--model", "ground-truth", "--url", job.url),
        *("--endpoint-type", "chat", "--streaming", "--tokenizer", job.tokenizer),
        *("--use-server-token-count", "--per-chunk-usage", "--ui", "none"),
        *("--concurrency", str(job.streams), "--request-count", str(job.requests)),
        *("--isl", str(PROMPT_TOKENS), "--osl", str(job.output_tokens)),
        *("--export-level", "records", "--output-artifact-dir", job.folder),
    ]


def _read_aiperf(folder: Path) -> Observed:
    lines = (folder / "profile_export.jsonl").read_text().splitlines()
    metrics = [json.loads(line)["metrics"] for line in lines]
    summary = _json(folder / "profile_export_aiperf.json")
    return Observed(
        ttft_s=[m["time_to_first_token"]["value"] / 1e3 for m in metrics],
        itl_s=[m["inter_token_latency"]["value"] / 1e3 for m in metrics],
        throughput_token_per_s=summary["output_token_throughput"]["avg"],
    )


def _guidellm(binaries: Path, job: Job) -> list[str | Path]:
    data = f"prompt_tokens={PROMPT_TOKENS},output_tokens={job.output_tokens}"
    return [
        *(binaries / "guidellm", "run", "--disable-console"),
        *("--backend", f"kind=openai_http,target={job.url},model=ground-truth"),
        *("--profile", f"kind=concurrent,streams={job.streams}"),
        *("--constraint", f"kind=max_requests,count={job.requests}"),
        *("--tokenizer", f"kind=huggingface_auto,model={job.tokenizer}"),
        *("--data", f"kind=synthetic_text,{data}"),
        *("--output", f"kind=json,path={job.folder / 'guidellm.json'}"),
    ]


def _read_guidellm(folder: Path) -> Observed:
    benchmark = _json(folder / "guidellm.json")["benchmarks"][0]
    requests = benchmark["requests"]["successful"]
    throughput = benchmark["metrics"]["output_tokens_per_second"]["successful"]
    return Observed(
        ttft_s=[r["time_to_first_token_ms"] / 1e3 for r in requests],
        itl_s=[r["inter_token_latency_ms"] / 1e3 for r in requests],
        throughput_token_per_s=throughput["mean"],
    )


def _vllm_bench(binaries: Path, job: Job) -> list[str | Path]:
    return [
        *(binaries / "python", "-m", "vllm.entrypoints.cli.main", "bench", "serve"),
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
        *("--base-url", job.url, "--model", "ground-truth", "--tokenizer", job.tokenizer),
        *("--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS)),
        *("--random-output-len", str(job.output_tokens), "--ignore-eos"),
        *("--num-prompts", str(job.requests), "--max-concurrency", str(job.streams)),
        *("--ready-check-timeout-sec", "0", "--disable-tqdm"),
        *("--save-result", "--save-detailed", "--result-dir", job.folder),
        *("--result-filename", "vllm.json"),
    ]


def _read_vllm_bench(folder: Path) -> Observed:
    value = _json(folder / "vllm.json")
    rows = zip(value["ttfts"], value["latencies"], value["output_lens"], strict=True)
    return Observed(
        ttft_s=value["ttfts"],
        itl_s=[(e2e - ttft) / (tokens - 1) for ttft, e2e, tokens in rows],
        throughput_token_per_s=value["output_throughput"],
    )


def _inference_perf(binaries: Path, job: Job) -> list[str | Path]:
    prompts = {"num_groups": 1, "num_prompts_per_group": job.requests, "seed": 1}
    lengths = {"system_prompt_len": 4, "question_len": 12, "output_len": job.output_tokens}
    fields = dict.fromkeys(("request", "response", "info", "response_chunks"), False)
    requests_report = {
        "per_stage": False,
        "per_request": True,
        "use_server_output_tokens": True,
        "per_request_fields": fields | {"computed_metrics": True},
    }
    stage = {"num_requests": job.requests, "concurrency_level": job.streams}
    config = {
        "api": {"type": "chat", "streaming": True},
        "data": {"type": "shared_prefix", "shared_prefix": prompts | lengths},
        "load": {"type": "concurrent", "stages": [stage]},
        "server": {"type": "vllm", "model_name": "ground-truth", "base_url": job.url},
        "tokenizer": {"pretrained_model_name_or_path": str(job.tokenizer)},
        "report": {"prometheus": {"summary": False}, "request_lifecycle": requests_report},
        "storage": {"local_storage": {"path": str(job.folder / "report")}},
    }
    path = job.folder / "config.yml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return [binaries / "inference-perf", "-c", path]


def _read_inference_perf(folder: Path) -> Observed:
    rows = _json(folder / "report" / "per_request_lifecycle_metrics.json")
    summary = _json(folder / "report" / "summary_lifecycle_metrics.json")
    metrics = [row["computed_metrics"] for row in rows]
    return Observed(
        ttft_s=[m["time_to_first_token"] for m in metrics],
        itl_s=[m["time_per_output_token"] for m in metrics],
        throughput_token_per_s=summary["successes"]["throughput"]["output_tokens_per_sec"],
    )


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


VLLM_BENCH = Peer(name="vllm-bench", version="0.32.0", command=_vllm_bench, read=_read_vllm_bench)
PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            name="aiperf",
            version="0.13.0",
            command=_aiperf,
            read=_read_aiperf,
            # aiperf refuses a tokenizer from a folder if HF_HUB_OFFLINE is set.
            environment=QUIET,
        ),
        Peer(name="guidellm", version="0.8.1", command=_guidellm, read=_read_guidellm),
        VLLM_BENCH,
        Peer(
            name="inference-perf",
            version="0.7.0",
            command=_inference_perf,
            read=_read_inference_perf,
            interpreters=("python3.12",),
        ),
    )
}
