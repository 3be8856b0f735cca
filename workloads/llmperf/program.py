"""The measuring Job's program: reads the run specification, measures, uploads, ends.

Exit codes: 0 the run is complete, 1 it failed (its `run.json` says why), 2 the input is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import boto3
from botocore.config import Config

from draftbench.errors import DraftbenchError, UserInputError
from draftbench.measuring.load import LoadEngine
from draftbench.measuring.runner import Runner, new_run_id
from draftbench.measuring.runspec import RunSpec, load_run_spec
from draftbench.measuring.sink import FolderSink, Sink
from draftbench.results import RunResult
from workloads.llmperf.ray_engine import ENGINES, open_engine
from workloads.llmperf.s3_sink import S3Sink, parse_s3_url

_RETRIES = Config(retries={"mode": "standard", "max_attempts": 8})


def main(argv: Sequence[str]) -> int:
    """Run once."""
    arguments = _parser().parse_args(argv)
    try:
        spec = _read_spec(arguments.run_spec)
        sink = _sink(arguments.results)
        # Before the event loop: Ray sets signal handlers, and the run's own must be the last.
        opened = open_engine(arguments.engine, arguments.ray_address, spec, _log)
        with opened as (engine, scheduling):
            result = asyncio.run(_run(spec, sink, engine, scheduling))
    except DraftbenchError as error:
        _log(str(error))
        return error.exit_code
    except asyncio.CancelledError:
        _log("stopped by a signal; run.json says so")
        return 1
    _log(f"run {result.run_id}: {result.status} {result.reason}".strip())
    return 0 if result.status == "complete" else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workloads.llmperf", description=__doc__)
    parser.add_argument("--run-spec", required=True, type=Path, help="run specification, JSON")
    parser.add_argument("--results", required=True, help="s3://BUCKET/PREFIX or a local folder")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="ray: llmperf's library, a process for each request in flight; asyncio: one process; "
        "auto (the default): ray where it and llmperf are installed and the load fits",
    )
    parser.add_argument(
        "--ray-address",
        help="a Ray cluster that runs this image, for example ray://HEAD_SERVICE:10001 "
        "(default: Ray is started here)",
    )
    return parser


def _read_spec(path: Path) -> RunSpec:
    try:
        return load_run_spec(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserInputError(f"{path}: cannot be read: {error.strerror}") from error


def _sink(results: str) -> Sink:
    if "://" not in results:
        return FolderSink(Path(results))
    bucket, prefix = parse_s3_url(results)
    return S3Sink(boto3.client("s3", config=_RETRIES), bucket=bucket, prefix=prefix)


async def _run(spec: RunSpec, sink: Sink, engine: LoadEngine, scheduling: str) -> RunResult:
    runner = Runner(
        spec=spec,
        sink=sink,
        run_id=new_run_id(spec.experiment),
        progress=_log,
        scheduling=scheduling,
        engine=engine,
    )
    task = asyncio.ensure_future(runner.run())
    # A deadline or a drained node sends SIGTERM: the run is over, and its run.json must say so.
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, task.cancel)
    return await task


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 (a pod's log is its standard error)
