"""Transcripts are read as a stream: what was made to fill a memory is refused for little."""

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from draftworth.records.codec import dump_record
from draftworth.records.results import BLOCKS_FOLDER, TRANSCRIPT_SUFFIX
from draftworth.records.transcripts import Transcript, dump_transcripts, read_transcripts
from tests.hostile.fuzzing import bounded
from tests.support.blocks import make_block
from tests.support.snapshot import assert_snapshot

BLOCK = make_block(request_count=2)
GOOD = dump_transcripts(Transcript(request_id=r.request_id, text="é") for r in BLOCK.requests)


def write(folder: Path, data: bytes) -> Path:
    path = folder / BLOCKS_FOLDER / f"{BLOCK.stem}{TRANSCRIPT_SUFFIX}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def compressed(pieces: Iterable[bytes]) -> bytes:
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


def test_an_empty_file_is_an_empty_transcript(tmp_path: Path) -> None:
    write(tmp_path, b"")
    assert read_transcripts(tmp_path, (BLOCK,)) == {}


def line(text: str) -> bytes:
    return dump_record(Transcript(request_id=BLOCK.requests[0].request_id, text=text))


# What stands in the place of a transcript; `refused-transcripts.txt` has what is said of each.
REFUSED = {
    "many good lines": compressed(repeat(line("x" * 10_000), 1_000)),
    "a line that hardly compresses": gzip.compress(line(os.urandom(3 * 2**20).hex()), 1),
    "of another block": dump_transcripts([Transcript(request_id="another-run/1")]),
    **{f"gzip of {text!r}": gzip.compress(text, mtime=0) for text in (b"not json\n", b"{}\n")},
    **{repr(data): data for data in (b"\x1f\x8b", b"plain")},
    "cut off": GOOD[:-9],
    "damaged": GOOD[:20] + b"\xff\xff" + GOOD[22:],
    "followed by something": GOOD + b"x",
}


def test_broken_transcripts_are_refused_without_much_memory(tmp_path: Path) -> None:
    chunks = ("1,", " ", "\n", "[", "9" * 1024)
    messages, large = "", {f"32 MiB of {c[:2]!r}": compressed(of_one_request(c)) for c in chunks}
    for name, data in (large | REFUSED).items():
        path = write(tmp_path, data)
        with bounded(mib=64), pytest.raises(UserInputError) as refused:
            read_transcripts(tmp_path, (BLOCK,))
        # What zlib says of damaged data differs from build to build.
        words = str(refused.value).replace(str(path), "FILE").partition(" while decompr")[0]
        messages += f"{name}\n  {words}\n"
    assert all(len(bomb) < 2**19 for bomb in large.values())
    assert_snapshot(messages, Path(__file__).parent / "snapshots" / "refused-transcripts.txt")


def test_a_pipe_in_its_place_does_not_hang(tmp_path: Path) -> None:
    path = write(tmp_path, b"")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserInputError, match="a pipe or device"):
        read_transcripts(tmp_path, (BLOCK,))
