"""Transcripts are read as a stream: what was made to fill a memory is refused for little."""

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from draftworth.records.codec import dump_record
from draftworth.records.results import BLOCKS_FOLDER, TRANSCRIPT_SUFFIX
from draftworth.records.transcripts import Transcript, dump_transcripts, read_transcripts
from tests.hostile.fuzzing import bounded
from tests.support.blocks import make_block

BLOCK = make_block(request_count=2)
GOOD = dump_transcripts(Transcript(request_id=r.request_id, text="é") for r in BLOCK.requests)


def write(folder: Path, data: bytes) -> Path:
    path = folder / BLOCKS_FOLDER / f"{BLOCK.stem}{TRANSCRIPT_SUFFIX}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def compressed(pieces: Iterator[bytes]) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([packer.compress(piece) for piece in pieces]) + packer.flush()


def of_one_request(chunks: str, *, last: str = "]}\n") -> Iterator[bytes]:
    """32 MiB of chunk times."""
    yield f'{{"request_id":"{BLOCK.requests[0].request_id}","chunk_offsets_us":['.encode()
    for _ in range(32):
        yield (chunks * (2**20 // len(chunks))).encode()
    yield last.encode()


def test_the_transcripts_of_a_blocks_requests_are_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert [t.text for t in read_transcripts(tmp_path, (BLOCK,)).values()] == ["é", "é"]


@pytest.mark.parametrize("chunks", ["1,", " ", "\n", "[", "9" * 1024])
def test_a_bomb_costs_neither_memory_nor_minutes(tmp_path: Path, chunks: str) -> None:
    path = write(tmp_path, compressed(of_one_request(chunks)))
    assert path.stat().st_size < 2**19
    with bounded(mib=64), pytest.raises(UserInputError, match="not a transcript of this version"):
        read_transcripts(tmp_path, (BLOCK,))


def test_many_good_lines_are_a_bomb_too(tmp_path: Path) -> None:
    line = dump_record(Transcript(request_id=BLOCK.requests[0].request_id, text="x" * 10_000))
    write(tmp_path, compressed(line for _ in range(1_000)))
    with bounded(), pytest.raises(UserInputError, match="request_id: given 'request-0', allowed"):
        read_transcripts(tmp_path, (BLOCK,))


def test_a_long_line_is_refused_also_where_it_does_not_compress(tmp_path: Path) -> None:
    text = os.urandom(3 * 2**20).hex()
    line = dump_record(Transcript(request_id=BLOCK.requests[0].request_id, text=text))
    write(tmp_path, gzip.compress(line, 1))
    with pytest.raises(UserInputError, match="more than 4,194,304 bytes in a line"):
        read_transcripts(tmp_path, (BLOCK,))


def test_a_transcript_of_another_block_is_refused(tmp_path: Path) -> None:
    write(tmp_path, dump_transcripts([Transcript(request_id="another-run/1")]))
    with pytest.raises(UserInputError, match="given 'another-run/1', allowed: each request of"):
        read_transcripts(tmp_path, (BLOCK,))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x1f\x8b", b"plain", GOOD[:-9], GOOD[:20] + b"\xff\xff" + GOOD[22:], GOOD + b"x"),
        *(gzip.compress(line, mtime=0) for line in (b"not json\n", b"{}\n")),
    ],
)
def test_what_is_no_whole_gzip_file_of_records_is_refused(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, data)
    if not data:  # an empty file is an empty transcript
        assert read_transcripts(tmp_path, (BLOCK,)) == {}
        return
    with pytest.raises(UserInputError, match=f"{path.name}: not a transcript"):
        read_transcripts(tmp_path, (BLOCK,))


def test_a_pipe_in_its_place_does_not_hang(tmp_path: Path) -> None:
    path = write(tmp_path, b"")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserInputError, match="a pipe or device"):
        read_transcripts(tmp_path, (BLOCK,))
