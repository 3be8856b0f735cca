"""A run's files: what is written for a block, in which order, and again when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from draftworth.measuring.client import Measured
from draftworth.measuring.llmperf_files import llmperf_responses, llmperf_summary
from draftworth.measuring.sink import Sink, SinkError
from draftworth.records.codec import dump_record
from draftworth.records.results import (
    BLOCKS_FOLDER,
    INTERRUPTED_FOLDER,
    INTERRUPTED_SUFFIX,
    LLMPERF_RESPONSES_SUFFIX,
    LLMPERF_SUMMARY_SUFFIX,
    RESULT_SUFFIX,
    TRANSCRIPT_SUFFIX,
    BlockResult,
)
from draftworth.records.transcripts import Transcript, dump_transcripts

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
