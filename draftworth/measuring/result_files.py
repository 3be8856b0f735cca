"""Writes result files: each file completely and only once; failed writes are tried again.

The two files in llmperf's format have the names and flat keys of llmperf's `token_benchmark_ray.py`
(commit f1d6bed). The figures in them are draftworth's, because llmperf's own inter-token latency
divides by chunks.
"""

import asyncio
import errno
import json
import secrets
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from draftworth.analysis.statistics import quantile
from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring.streamed_request import Measured
from draftworth.metrics import definitions
from draftworth.records import results
from draftworth.records.codec import dump_json, dump_record
from draftworth.records.transcripts import Transcript, dump_transcripts
from draftworth.safe_writing import write_file
from draftworth.untrusted import TooLargeError, read_file

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call `work` in a thread and return its result; the event loop continues meanwhile.

    If the caller is cancelled meanwhile, CancelledError is raised only after `work` has returned.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise


class SinkError(DraftworthError):
    """A result file could not be written or read."""


class StorageFullError(SinkError):
    """A result file could not be written, and no later one can be until somebody acts.

    The disk or quota is full, the file system is read-only, or a folder of the run became a link.
    """


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


class Sink(Protocol):
    """Stores a run's files."""

    def write(self, name: str, data: bytes) -> None:
        """Write one file; raises SinkError, also if the name exists."""


class Store(Sink, Protocol):
    """Stores a run's files, and reads those that were stored."""

    def names(self, folder: str) -> list[str]:
        """Return the names of all files below a folder, sorted; raise SinkError if that fails."""

    def read(self, name: str, *, limit_bytes: int = results.RESULT_LIMIT_BYTES) -> bytes:
        """Read one file; raises SinkError, also for one that is larger than `limit_bytes`."""


@dataclass
class FolderSink:
    """Writes and reads files below a local folder."""

    folder: Path

    def check(self) -> None:
        """Write a test file and remove it; UserInputError: the folder does not allow both."""
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
        """Write one file whole and only once; raises StorageFullError if no later try can succeed.

        Files of a run hold prompts and answers, so only the owner may read them and their folders.
        """
        path = self.folder / name
        try:
            write_file(path, data, root=self.folder, private=True, overwrite=False)
        except OSError as error:
            reason = f"{path}: cannot be written: {error.strerror}"
            if error.errno in _FULL:
                raise StorageFullError(f"{reason}; next: make room there") from error
            # ELOOP: `write_file` found a symbolic link in the path. No later try can succeed, so
            # this is a StorageFullError too. The message of `write_file` already says what to do.
            raise (StorageFullError if error.errno == errno.ELOOP else SinkError)(reason) from error

    def names(self, folder: str) -> list[str]:
        """Return the names of all complete files below a folder, sorted.

        A file that is not complete yet has a name that begins with a dot.
        """
        paths = (self.folder / folder).rglob("[!.]*")
        return sorted(p.relative_to(self.folder).as_posix() for p in paths if p.is_file())

    def read(self, name: str, *, limit_bytes: int = results.RESULT_LIMIT_BYTES) -> bytes:
        path = self.folder / name
        try:
            return read_file(path, limit_bytes)
        except (OSError, TooLargeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SinkError(f"{path}: cannot be read: {reason}") from error


class Tee:
    """Writes each file to several sinks, in the given order."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def write(self, name: str, data: bytes) -> None:
        """Write to all sinks, then raise the first SinkError of any of them."""
        errors: list[SinkError] = []
        for sink in self.sinks:
            try:
                sink.write(name, data)
            except SinkError as error:
                errors.append(error)
        if errors:
            raise errors[0]


_QUANTILES = (25, 50, 75, 90, 95, 99)
# The fields of a request that llmperf summarizes.
_SUMMARIZED = (
    "inter_token_latency_s",
    "ttft_s",
    "end_to_end_latency_s",
    "request_output_throughput_token_per_s",
    "number_output_tokens",
    "number_input_tokens",
)


def llmperf_responses(block: results.BlockResult) -> bytes:
    """Return a block as llmperf's `*_individual_responses.json`: llmperf's fields, then ours."""
    names = ("experiment", "variant", "prompt_class", "case", "round", "run_id")
    context = {name: getattr(block, name) for name in names}
    return dump_json([vars(record) | context for record in block.requests])


def llmperf_summary(block: results.BlockResult) -> bytes:
    """Return a block as llmperf's `*_summary.json`."""
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
            summary |= _statistics(metric.field, results.values_of(block.requests, metric.field))
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


# The most token ids that are kept, of all outputs together: about 50 MB of memory.
MOST_KEPT_IDS = 1_000_000


@dataclass(kw_only=True)
class RunFiles:
    """Writes files into the run's folder.

    A file that cannot be written now is kept for `flush`. If the storage is full, StorageFullError
    is raised instead, because further measuring is of no use.

    token_ids: transcripts with only the token ids of each output, by request id, for the verdict at
        the run's end; empty if the run has more than `MOST_KEPT_IDS` ids.
    """

    sink: Sink
    run_id: str
    progress: Callable[[str], None]
    token_ids: dict[str, Transcript] = field(default_factory=dict)
    _kept_ids: int = 0
    _unwritten: dict[str, bytes] = field(default_factory=dict)

    def write(self, name: str, data: bytes) -> None:
        try:
            self.write_now(name, data)
        except StorageFullError:
            raise
        except SinkError as error:
            self.progress(f"not written yet, will be tried again: {error}")
            self._unwritten[name] = data

    def write_now(self, name: str, data: bytes) -> None:
        self.sink.write(f"{self.run_id}/{name}", data)

    def flush(self) -> list[str]:
        """Try to write failed files again, and return the names of those that fail again."""
        kept, self._unwritten = self._unwritten, {}
        for name, data in kept.items():
            self.write(name, data)
        return list(self._unwritten)

    def write_block(self, block: results.BlockResult, measured: Sequence[Measured]) -> None:
        stem = f"{results.BLOCKS_FOLDER}/{block.stem}"
        self.write(f"{stem}{results.TRANSCRIPT_SUFFIX}", _transcripts(measured))
        self._keep_ids(m.transcript for m in measured if m.transcript.token_ids)
        self.write(f"{stem}{results.RESULT_SUFFIX}", dump_record(block))
        for name, data in _derived(block):
            self.write(name, data)

    def _keep_ids(self, transcripts: Iterable[Transcript]) -> None:
        if self._kept_ids > MOST_KEPT_IDS:
            return
        for transcript in transcripts:
            name, ids = transcript.request_id, transcript.token_ids
            self.token_ids[name] = Transcript(request_id=name, token_ids=ids)
            self._kept_ids += len(ids or ())
        if self._kept_ids > MOST_KEPT_IDS:
            self.token_ids.clear()
            self.progress(
                f"more than {MOST_KEPT_IDS:,} token ids: the report says whether greedy outputs "
                "differ by rounding alone, the verdict at the run's end does not"
            )

    def write_lost(self, block: results.BlockResult, measured: Sequence[Measured]) -> None:
        stem = f"{results.INTERRUPTED_FOLDER}/{block.stem}"
        self.write(f"{stem}{results.TRANSCRIPT_SUFFIX}", _transcripts(measured))
        self.write(f"{stem}{results.INTERRUPTED_SUFFIX}", dump_record(block))

    def complete(self, blocks: Sequence[results.BlockResult], names: frozenset[str]) -> None:
        """Write those llmperf files of `blocks` that are not among the existing files, `names`."""
        for name, data in (file for block in blocks for file in _derived(block)):
            if name not in names:
                self.write(name, data)


def _derived(block: results.BlockResult) -> Iterator[tuple[str, bytes]]:
    stem = f"{results.BLOCKS_FOLDER}/{block.stem}"
    yield f"{stem}{results.LLMPERF_RESPONSES_SUFFIX}", llmperf_responses(block)
    yield f"{stem}{results.LLMPERF_SUMMARY_SUFFIX}", llmperf_summary(block)


def _transcripts(measured: Sequence[Measured]) -> bytes:
    return dump_transcripts(m.transcript for m in measured)
