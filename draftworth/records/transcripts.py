"""The texts and chunk times of a block's requests: a compressed file beside its result file."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.results import BLOCKS_FOLDER, TRANSCRIPT_SUFFIX, BlockResult


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """One request's text and when its chunks came, in microseconds since it was sent.

    chunk_tokens: tokens of each chunk; None where the server does not count them by chunk.
    chunk_characters: length of each chunk's text.
    """

    request_id: str
    text: str = ""
    chunk_offsets_us: tuple[int, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    chunk_characters: tuple[int, ...] = ()

    @property
    def step_latencies_s(self) -> list[float]:
        """Times between consecutive chunks: what a step of the server took, in seconds."""
        return [(later - earlier) / 1e6 for earlier, later in pairwise(self.chunk_offsets_us)]

    def tokens_before(self, position: int) -> int | None:
        """Output tokens before the chunk that has the character at a position; None: not known.

        The number of the token itself where chunks hold one, as a baseline's do.
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


# By request id, which is unique in a run.
Transcripts = Mapping[str, Transcript]


def dump_transcripts(transcripts: Iterable[Transcript]) -> bytes:
    """The bytes of a block's file: JSON Lines, compressed."""
    return gzip.compress(b"".join(map(dump_record, transcripts)), mtime=0)


def read_transcripts(folder: Path, blocks: tuple[BlockResult, ...]) -> Transcripts:
    """The transcripts of those blocks that have a file; a block without one has none.

    Raises:
        UserInputError: a file is not a transcript.
    """
    paths = (folder / BLOCKS_FOLDER / f"{block.stem}{TRANSCRIPT_SUFFIX}" for block in blocks)
    found = (transcript for path in paths if path.is_file() for transcript in _read(path))
    return {transcript.request_id: transcript for transcript in found}


def _read(path: Path) -> list[Transcript]:
    try:
        with gzip.open(path) as lines:
            return [load_record(Transcript, line) for line in lines]
    except (OSError, EOFError, ValueError, RecordError) as error:
        raise UserInputError(f"{path}: not a transcript of this version: {error}") from error
