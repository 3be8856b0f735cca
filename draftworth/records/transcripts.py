"""The texts and chunk times of a run's requests, read from the transcripts beside the results."""

from __future__ import annotations

import gzip
import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from draftworth.errors import UserInputError
from draftworth.records.results import BLOCKS_FOLDER, TRANSCRIPT_SUFFIX, BlockResult


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """One request's text and when its chunks came, in microseconds since it was sent.

    chunk_tokens, chunk_characters: tokens and text length of each chunk; empty where not known.
    """

    text: str
    chunk_offsets_us: array[int]
    chunk_tokens: array[int]
    chunk_characters: array[int]

    @property
    def step_latencies_s(self) -> list[float]:
        """Times between consecutive chunks: what a step of the server took, in seconds."""
        return [(later - earlier) / 1e6 for earlier, later in pairwise(self.chunk_offsets_us)]

    def tokens_before(self, position: int) -> int | None:
        """Output tokens before the chunk that has the character at a position; None: not known.

        The number of the token itself where chunks hold one, as a baseline's do.
        """
        if len(self.chunk_tokens) != len(self.chunk_characters) or not self.chunk_tokens:
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


def read_transcripts(folder: Path, blocks: tuple[BlockResult, ...]) -> Transcripts:
    """The transcripts of those blocks that have a file; a block without one has none.

    Raises:
        UserInputError: a file is not a transcript.
    """
    found: dict[str, Transcript] = {}
    for block in blocks:
        path = folder / BLOCKS_FOLDER / f"{block.stem}{TRANSCRIPT_SUFFIX}"
        if path.is_file():
            found |= _read(path)
    return found


def _read(path: Path) -> dict[str, Transcript]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return dict(_transcript(json.loads(line)) for line in lines)
    except (OSError, EOFError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise UserInputError(f"{path}: not a transcript of this version: {error!r}") from error


def _transcript(value: Mapping[str, Any]) -> tuple[str, Transcript]:
    return value["request_id"], Transcript(
        text=str(value["text"]),
        chunk_offsets_us=array("Q", value["chunk_offsets_us"]),
        chunk_tokens=array("Q", value["chunk_tokens"] or ()),
        chunk_characters=array("Q", value["chunk_characters"]),
    )
