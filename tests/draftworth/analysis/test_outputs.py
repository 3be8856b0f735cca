"""Transcripts and where outputs begin to differ."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from draftworth.analysis.facts import facts_of
from draftworth.analysis.outputs import first_difference
from draftworth.errors import UserInputError
from draftworth.records.results import TRANSCRIPT_SUFFIX
from draftworth.records.transcripts import Transcript, read_transcripts
from tests.draftworth.report.runs import make_drafted_block, make_plain_block, make_run, write_run

DIFFERENT = "f" * 64


@pytest.mark.parametrize(
    ("one", "other", "position"), [("abc", "abd", 2), ("", "x", 0), ("ab", "abc", 2)]
)
def test_first_difference(one: str, other: str, position: int) -> None:
    assert first_difference(one, other) == position
    assert first_difference(other, one) == position


def test_differing_pairs_are_told_with_position_and_context(tmp_path: Path) -> None:
    run = make_run(blocks=(make_plain_block(1, "structured"), make_drafted_block(2, "structured")))
    texts = {"run/1-3": "count: 1 2 3", "run/2-3": "count: 1 2 4"}
    folder = write_run(run, tmp_path / "run", texts=texts)

    facts = facts_of(run, read_transcripts(folder, run.blocks))

    (divergence,) = facts.speculative[0].divergences
    assert (divergence.token, divergence.character) == (11, 11)
    assert divergence.prompt == "prompt-3"
    assert (divergence.baseline_text, divergence.variant_text) == ("3", "4")


@pytest.mark.parametrize(
    ("characters", "tokens", "position", "expected"),
    [
        ([2, 3, 4], [1, 1, 1], 4, 1),
        ([2, 3, 4], [1, 1, 1], 5, 2),
        ([2, 3, 4], [1, 7, 1], 5, 8),  # a drafted chunk: known up to its beginning
        ([2, 0, 4], [1, 1, 1], 2, 2),  # half a character in the middle token
        ([2, 3], [1, 1], 5, 2),  # the other one goes on
        ([2, 3], [], 4, None),  # a server that counts at the end only
    ],
)
def test_a_place_in_the_text_is_a_token_where_chunks_are_counted(
    characters: list[int], tokens: list[int], position: int, expected: int | None
) -> None:
    transcript = Transcript(
        request_id="r",
        text="x" * sum(characters),
        chunk_tokens=tuple(tokens),
        chunk_characters=tuple(characters),
    )
    assert transcript.tokens_before(position) == expected


def test_steps_are_the_times_between_chunks(tmp_path: Path) -> None:
    run = make_run()
    facts = facts_of(run, read_transcripts(write_run(run, tmp_path / "run"), run.blocks))
    baseline = facts.groups[0].baseline
    assert len(baseline.step_latencies_s) == 2 * 8 * 99
    assert baseline.step_latencies_s[0] == pytest.approx(0.01)


def test_without_transcripts_there_are_no_steps(tmp_path: Path) -> None:
    run = make_run()
    assert read_transcripts(tmp_path, run.blocks) == {}
    assert facts_of(run, {}).groups[0].baseline.step_latencies_s == ()


@pytest.mark.parametrize(
    "data",
    [b"not gzip", gzip.compress(b"not json\n"), gzip.compress(b"{}\n"), gzip.compress(b"1\n")[:9]],
    ids=["not gzip", "not JSON", "keys missing", "cut short"],
)
def test_a_broken_transcript_is_refused_with_its_name(tmp_path: Path, data: bytes) -> None:
    run = make_run()
    folder = write_run(run, tmp_path / "run")
    file = next((folder / "blocks").glob(f"*{TRANSCRIPT_SUFFIX}"))
    file.write_bytes(data)
    with pytest.raises(UserInputError, match=file.name):
        read_transcripts(folder, run.blocks)
