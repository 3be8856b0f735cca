"""Snapshots are for people, who read at most 200 lines of text."""

from pathlib import Path

import pytest

from tests.conftest import ROOT

MOST_LINES = 200


def longer_texts(folder: Path) -> set[Path]:
    """Return the text and Markdown files with more than `MOST_LINES` lines, without npm's."""
    texts = (path for end in ("txt", "md") for path in folder.rglob(f"*.{end}"))
    return {
        path
        for path in texts
        if "node_modules" not in path.parts
        and len(path.read_text("utf-8").splitlines()) > MOST_LINES
    }


def test_no_text_is_longer_than_200_lines() -> None:
    assert [*(ROOT / "tests").rglob("*.txt")]
    assert longer_texts(ROOT / "tests") == set()


@pytest.mark.parametrize(("lines", "is_longer"), [(200, False), (201, True)])
def test_a_planted_long_text_is_reported(lines: int, is_longer: bool, tmp_path: Path) -> None:
    text = tmp_path / "words.txt"
    text.write_text("word\n" * lines)

    assert longer_texts(tmp_path) == ({text} if is_longer else set())
