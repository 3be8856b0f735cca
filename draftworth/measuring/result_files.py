"""Result files: they are written once, whole, in a fixed order, and again when writing fails.

Flat keys as `token_benchmark_ray.py` at f1d6bed writes them. The figures are OURS (llmperf's own
inter-token latency divides by chunks); only the names are llmperf's.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from draftworth.analysis.statistics import quantile
from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring.client import Measured
from draftworth.metrics import definitions
from draftworth.records.codec import dump_json, dump_record
from draftworth.records.results import (
    BLOCKS_FOLDER,
    INTERRUPTED_FOLDER,
    INTERRUPTED_SUFFIX,
    LLMPERF_RESPONSES_SUFFIX,
    LLMPERF_SUMMARY_SUFFIX,
    RESULT_LIMIT_BYTES,
    RESULT_SUFFIX,
    TRANSCRIPT_SUFFIX,
    BlockResult,
    values_of,
)
from draftworth.records.transcripts import Transcript, dump_transcripts
from draftworth.untrusted import TooLargeError, read_file

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Let a thread work, so that a signal reaches the run meanwhile; what it returns.

    A run that is cancelled meanwhile ends when the work is done.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise


class SinkError(DraftworthError):
    """A result file could not be written, or read back."""


class Sink(Protocol):
    """Takes a run's files."""

    def write(self, name: str, data: bytes) -> None:
        """Write one file; raises SinkError, also when the name is taken."""


class Store(Sink, Protocol):
    """A sink whose files can be read back."""

    def names(self, folder: str) -> list[str]:
        """Names of all files below a folder, sorted; raises SinkError."""

    def read(self, name: str, *, limit_bytes: int = RESULT_LIMIT_BYTES) -> bytes:
        """One file, no larger than a result file can be, or than is said; raises SinkError."""


@dataclass
class FolderSink:
    """Writes below a local folder, and reads back."""

    folder: Path

    def check(self) -> None:
        """Write and remove a file; raises UserInputError, before anything is measured for it."""
        probe = f".probe-{secrets.token_hex(4)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write(probe, b"")
            (self.folder / probe).unlink()
        except (OSError, SinkError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserInputError(
                f"{self.folder}: no results can be written there: {reason}; give --out a folder "
                "that you may write to"
            ) from error

    def write(self, name: str, data: bytes) -> None:
        """Write to a temporary name, then link: the name shows only whole files."""
        path = self.folder / name
        partial = path.with_name(f".{path.name}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            os.link(partial, path)  # fails where the name is taken, unlike a rename
        except OSError as error:
            raise SinkError(f"{path}: cannot be written: {error.strerror}") from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """Whole files only: what a killed writer left half done begins with a dot."""
        paths = (self.folder / folder).rglob("[!.]*")
        return sorted(p.relative_to(self.folder).as_posix() for p in paths if p.is_file())

    def read(self, name: str, *, limit_bytes: int = RESULT_LIMIT_BYTES) -> bytes:
        """One file."""
        path = self.folder / name
        try:
            return read_file(path, limit_bytes)
        except (OSError, TooLargeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SinkError(f"{path}: cannot be read: {reason}") from error


class Tee:
    """Writes to several sinks in turn: the local copy first, then the remote one."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def write(self, name: str, data: bytes) -> None:
        """Write to all of them, then raise the first SinkError met."""
        errors: list[SinkError] = []
        for sink in self.sinks:
            try:
                sink.write(name, data)
            except SinkError as error:
                errors.append(error)
        if errors:
            raise errors[0]


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
        "num_concurrent_requests": block.load.in_flight,
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


# Of all outputs together: some 50 MB of memory.
MOST_KEPT_IDS = 1_000_000


@dataclass(kw_only=True)
class RunFiles:
    """Writes below the run's folder. A file that cannot be written now is kept for `flush`.

    token_ids: of the outputs that were written, by request, for the verdict at the end; none where
        there are more than `MOST_KEPT_IDS`.
    """

    sink: Sink
    run_id: str
    progress: Callable[[str], None]
    token_ids: dict[str, Transcript] = field(default_factory=dict)
    _kept_ids: int = 0
    _unwritten: dict[str, bytes] = field(default_factory=dict)

    def write(self, name: str, data: bytes) -> None:
        """Write one file, or keep it."""
        try:
            self.write_now(name, data)
        except SinkError as error:
            self.progress(f"not written yet, will be tried again: {error}")
            self._unwritten[name] = data

    def write_now(self, name: str, data: bytes) -> None:
        """Write one file; raises SinkError."""
        self.sink.write(f"{self.run_id}/{name}", data)

    def flush(self) -> list[str]:
        """Try again what could not be written; the names that still cannot."""
        kept, self._unwritten = self._unwritten, {}
        for name, data in kept.items():
            self.write(name, data)
        return list(self._unwritten)

    def write_block(self, block: BlockResult, measured: Sequence[Measured]) -> None:
        """Raw evidence first, then the result file, then what is derived from it."""
        stem = f"{BLOCKS_FOLDER}/{block.stem}"
        self.write(f"{stem}{TRANSCRIPT_SUFFIX}", _transcripts(measured))
        self._keep_ids(m.transcript for m in measured if m.transcript.token_ids)
        self.write(f"{stem}{RESULT_SUFFIX}", dump_record(block))
        for name, data in _derived(block):
            self.write(name, data)

    def _keep_ids(self, transcripts: Iterable[Transcript]) -> None:
        if self._kept_ids > MOST_KEPT_IDS:
            return
        for found in transcripts:
            name, ids = found.request_id, found.token_ids
            self.token_ids[name] = Transcript(request_id=name, token_ids=ids)
            self._kept_ids += len(ids or ())
        if self._kept_ids > MOST_KEPT_IDS:
            self.token_ids.clear()
            self.progress(
                f"more than {MOST_KEPT_IDS:,} token ids: whether greedy outputs differ by rounding "
                "alone is not in the verdict of the run's end, and in its report"
            )

    def write_lost(self, block: BlockResult, measured: Sequence[Measured]) -> None:
        """The evidence of a block whose figures count for nothing."""
        stem = f"{INTERRUPTED_FOLDER}/{block.stem}"
        self.write(f"{stem}{TRANSCRIPT_SUFFIX}", _transcripts(measured))
        self.write(f"{stem}{INTERRUPTED_SUFFIX}", dump_record(block))

    def complete(self, blocks: Sequence[BlockResult], names: frozenset[str]) -> None:
        """Write the derived files that an earlier pod did not come to write."""
        for name, data in (file for block in blocks for file in _derived(block)):
            if name not in names:
                self.write(name, data)


def _derived(block: BlockResult) -> Iterator[tuple[str, bytes]]:
    stem = f"{BLOCKS_FOLDER}/{block.stem}"
    yield f"{stem}{LLMPERF_RESPONSES_SUFFIX}", llmperf_responses(block)
    yield f"{stem}{LLMPERF_SUMMARY_SUFFIX}", llmperf_summary(block)


def _transcripts(measured: Sequence[Measured]) -> bytes:
    return dump_transcripts(m.transcript for m in measured)
