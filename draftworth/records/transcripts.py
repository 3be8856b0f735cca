"""Transcripts: the texts and chunk times of a block's requests, beside the block's result file."""

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.results import BLOCKS_FOLDER, TRANSCRIPT_SUFFIX, BlockResult
from draftworth.untrusted import MIB, TooLargeError, one_line, open_file, without_secrets

# The compressed transcripts of MAX_REQUESTS_PER_BLOCK requests with 6,000 chunks each are smaller.
FILE_LIMIT_BYTES = 256 * MIB
# The line of a request with 100,000 chunks has 2 MiB.
LINE_LIMIT_BYTES = 4 * MIB
# Chunk times compress to a third, and repeated text to less. A file that grows far beyond this
# ratio was made to fill the memory. The ratio does not apply to the first FREE_BYTES, because short
# runs of a server that repeats one text compress well.
MAX_RATIO = 20
FREE_BYTES = 8 * MIB


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """One request's output text and the arrival times of its chunks.

    If an output repeats a secret of this process, the file has the secret's name in its place
    (`without_secrets`) and no token ids; all other values are of the output as it was received.

    chunk_offsets_us: when each chunk arrived, in microseconds after the request was sent.
    chunk_tokens: number of tokens in each chunk; None if the server does not count them by chunk.
    chunk_characters: number of characters in each chunk's text.
    token_ids: token ids of the output; None if they were not requested, or are incomplete.
    """

    request_id: str
    text: str = ""
    chunk_offsets_us: tuple[int, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    chunk_characters: tuple[int, ...] = ()
    token_ids: tuple[int, ...] | None = None

    @property
    def step_latencies_s(self) -> list[float]:
        return [(later - earlier) / 1e6 for earlier, later in pairwise(self.chunk_offsets_us)]

    def tokens_before(self, position: int) -> int | None:
        """Return the number of output tokens before the chunk that contains character `position`.

        The result is None if the tokens of each chunk are not known.
        """
        if not self.chunk_tokens or len(self.chunk_tokens) != len(self.chunk_characters):
            return None
        characters = tokens = 0
        for length, count in zip(self.chunk_characters, self.chunk_tokens, strict=True):
            characters += length
            if characters > position:
                return tokens
            tokens += count
        return tokens


# The transcripts by request id, which is unique in a run.
Transcripts = Mapping[str, Transcript]


def dump_transcripts(transcripts: Iterable[Transcript]) -> bytes:
    """Return a block's transcripts as compressed JSON Lines, without secrets in their texts."""
    lines = (dump_record(_with_secrets_replaced(each)) for each in transcripts)
    return gzip.compress(b"".join(lines), mtime=0)


def _with_secrets_replaced(transcript: Transcript) -> Transcript:
    text = without_secrets(transcript.text)
    if text == transcript.text:
        return transcript
    # The token ids would give the secret away too.
    return replace(transcript, text=text, token_ids=None)


def read_transcripts(folder: Path, blocks: tuple[BlockResult, ...]) -> Transcripts:
    """Return the transcripts of blocks by request id; raise UserInputError for a wrong file.

    folder: the run's folder. A block without a transcript file is left out.
    """
    transcripts: dict[str, Transcript] = {}
    for block in blocks:
        path = folder / BLOCKS_FOLDER / f"{block.stem}{TRANSCRIPT_SUFFIX}"
        if os.path.lexists(path):
            transcripts.update(_read(path, block))
    return transcripts


def _read(path: Path, block: BlockResult) -> Transcripts:
    try:
        with open_file(path) as file:
            size_bytes = min(FILE_LIMIT_BYTES, os.fstat(file.fileno()).st_size)
            limit_bytes = FREE_BYTES + MAX_RATIO * size_bytes
            with gzip.open(file) as lines:
                return _of_block(block, _lines(lines, limit_bytes))
    except (OSError, EOFError, zlib.error, RecordError, TooLargeError) as error:
        raise UserInputError(f"{path}: not a transcript of this version: {error}") from error


def _lines(file: gzip.GzipFile, limit_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a transcript file one by one, so that memory holds only one of them.

    limit_bytes: the most bytes of all lines together, uncompressed. TooLargeError is raised if they
        have more, or if one line has more than `LINE_LIMIT_BYTES`.
    """
    while line := file.readline(min(LINE_LIMIT_BYTES, limit_bytes) + 1):
        limit_bytes -= len(line)
        if len(line) > LINE_LIMIT_BYTES or limit_bytes < 0:
            raise TooLargeError(
                f"more than {LINE_LIMIT_BYTES:,} bytes in a line, or {MAX_RATIO} times as much as "
                "is compressed"
            )
        yield line


def _of_block(block: BlockResult, lines: Iterable[bytes]) -> Transcripts:
    expected_ids = {record.request_id for record in block.requests}
    transcripts: dict[str, Transcript] = {}
    for line in lines:
        transcript = load_record(Transcript, line)
        name = transcript.request_id
        if name not in expected_ids or name in transcripts:
            raise RecordError(
                f"request_id: given {one_line(name, characters=80)!r}, allowed: each request of "
                f"{block.stem} once"
            )
        transcripts[name] = transcript
    return transcripts
