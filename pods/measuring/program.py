"""The program of the measuring Job: its arguments, its run and its exit codes.

In a Job's pod the run belongs to the Job: a pod that is terminated leaves the run open, and the
next pod continues at the first block that is not measured. Every other end is written to
`run.json`, because the capacity controller keeps the servers' nodes until then. Outside of a Job a
run ends with its process.

Exit codes: 0 the run is complete, 1 it failed (its `run.json` says why), 2 the input is wrong,
3 the specification or the results cannot be read or written, 75 terminated before the run was over.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from draftworth import __version__
from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring import run_specification
from draftworth.measuring.clock import unix_clock
from draftworth.measuring.journal import read_history, unrecorded_ends
from draftworth.measuring.result_files import FolderSink, SinkError, Store
from draftworth.measuring.runner import DEFECT, Runner, new_run_id
from draftworth.measuring.server_lifecycle import Environment, ReadServerState
from draftworth.records.codec import dump_record
from draftworth.records.results import RUN_FILE, RunResult
from draftworth.records.run_folder import parse_s3_url
from draftworth.untrusted import one_line
from pods.log import log_line
from pods.measuring.engine_choice import open_engine
from pods.measuring.kubernetes_servers import run_deployed_servers, servers_of
from pods.measuring.read_specification import read_spec
from pods.measuring.s3_sink import S3Sink
from pods.measuring.server_states import ServerStates
from pods.measuring.write_report import add_report

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


_RETRIES = Config(retries={"mode": "standard", "max_attempts": 8})


def main(argv: Sequence[str]) -> int:
    """Run the program once, and return its exit code."""
    arguments = _parser().parse_args(argv)
    run_id = run_specification.job_run_id(os.environ)
    try:
        _end_on_signal()
        result = _measure(arguments, run_id)
        _end_on_signal()  # again, because the run's event loop has removed all signal handlers
        add_report(_store(arguments.results), result.run_id, log_line)
    except SinkError as error:
        log_line(f"{error}; another pod may succeed")
        return run_specification.EXIT_NOT_RECORDED
    except DraftworthError as error:
        log_line(str(error))
        recorded = run_id is None or _record_failure(arguments, run_id, str(error))
        return error.exit_code if recorded else run_specification.EXIT_NOT_RECORDED
    except (asyncio.CancelledError, SystemExit):
        if run_id is None:
            log_line("stopped by a signal; the run is over")
            return run_specification.EXIT_FAILED
        log_line(f"terminated; {run_id} goes on in the next pod")
        return run_specification.EXIT_INTERRUPTED
    except Exception as error:
        if run_id:
            reason = one_line(f"{DEFECT}: {type(error).__name__}: {error}")
            _record_failure(arguments, run_id, reason)
        raise
    log_line(f"run {result.run_id}: {result.status} {result.reason}".strip())
    is_complete = result.status == "complete"
    return run_specification.EXIT_COMPLETE if is_complete else run_specification.EXIT_FAILED


def _end_on_signal() -> None:
    """From now on, exit on SIGTERM. The run itself has other handlers while it lasts.

    Without a handler, process 1 of a container ignores SIGTERM. When Ray starts, it replaces this
    handler by its own, which exits too.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))


def _measure(arguments: argparse.Namespace, run_id: str | None) -> RunResult:
    spec = read_spec(arguments.run_spec, arguments.run_spec_sha256, _s3)
    store = _store(arguments.results)
    history = read_history(store, run_id) if run_id else None
    servers = servers_of(spec, os.environ, log_line)
    environment = Environment(
        progress=log_line,
        deadline_seconds=_deadline(arguments.deadline_minutes_file),
        server_state=_server_states(arguments.results),
        servers=servers,
    )
    make = partial(Runner, spec, store, run_id or new_run_id(spec.experiment), history=history)
    if history and history.result:
        log_line(f"run {run_id} is over already; to measure again, raise `rerun`")
        return history.result
    ends = unrecorded_ends(history.entries) if history else 0
    if ends >= run_specification.MAX_UNRECORDED_ENDS:
        return make(environment).fail(
            f"{ends} pods ended and recorded no reason, as when they need more memory than they get"
        )
    # Ray starts before the event loop, because both set signal handlers, and those of the loop,
    # which end the run in order, must be set last.
    opened = open_engine(arguments.ray_address, spec, log_line)
    try:
        with opened as (engine, scheduling):
            runner = make(replace(environment, engine=engine, scheduling=scheduling))
            result = asyncio.run(_until_signal(runner))
    except SinkError:
        raise
    except DraftworthError as error:
        # Only the opening of the load engine raises this error, because a run that fails returns a
        # result instead. In a Job (with a history) the failure is recorded.
        if history is None:
            raise
        return make(environment).fail(str(error))
    asyncio.run(run_deployed_servers(servers, spec, log_line))
    return result


async def _until_signal(runner: Runner) -> RunResult:
    running = asyncio.ensure_future(runner.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    return await running


def _record_failure(arguments: argparse.Namespace, run_id: str, reason: str) -> bool:
    """Write `run.json` of a run that could not begin.

    Return False if the write failed and the Job's next pod must try again.
    """
    now = unix_clock()
    result = RunResult(
        run_id=run_id,
        experiment="",
        status="failed",
        reason=reason,
        started_at_unix_s=now,
        ended_at_unix_s=now,
        draftworth_version=__version__,
    )
    try:
        _store(arguments.results).write(f"{run_id}/{RUN_FILE}", dump_record(result))
    except DraftworthError as error:
        log_line(str(error))
        return not isinstance(error, SinkError)
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.measuring", description=__doc__)
    parser.add_argument(
        "--run-spec", required=True, help="run specification, JSON: s3://BUCKET/KEY or a file"
    )
    parser.add_argument(
        "--run-spec-sha256", help="SHA-256 that it must have, in hex digits (default: any)"
    )
    parser.add_argument("--results", required=True, help="s3://BUCKET/PREFIX or a local folder")
    parser.add_argument(
        "--deadline-minutes-file",
        type=Path,
        help="a file with the minutes that the whole run may take from the start of its first pod; "
        "read again while the run lasts",
    )
    parser.add_argument(
        "--ray-address",
        help="of load_generator llmperf: a Ray cluster that runs this image, for example "
        "ray://HEAD_SERVICE:10001 (default: Ray is started here)",
    )
    return parser


def _store(results: str) -> Store:
    if "://" not in results:
        return FolderSink(Path(results))
    bucket, prefix = parse_s3_url(results)
    return S3Sink(_s3(), bucket=bucket, prefix=prefix)


def _server_states(results: str) -> ReadServerState:
    if "://" not in results:
        return lambda _: None
    bucket, _ = parse_s3_url(results)
    return ServerStates(_s3(), bucket, log_line).read


def _s3() -> S3Client:
    return boto3.client("s3", config=_RETRIES)


def _deadline(path: Path | None) -> Callable[[], float | None]:
    """Return a function that reads the run's time limit from a file, in seconds, at each call.

    If a later read fails, that function returns the last limit; if `path` is None, it returns None.
    It raises UserInputError if the limit cannot be read now.
    """
    if path is None:
        return lambda: None
    last_seconds = _read_deadline(path)

    def read_again() -> float:
        nonlocal last_seconds
        with contextlib.suppress(UserInputError):
            last_seconds = _read_deadline(path)
        return last_seconds

    return read_again


def _read_deadline(path: Path) -> float:
    try:
        minutes = float(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserInputError(f"{path}: no number of minutes: {error}") from error
    return minutes * 60
