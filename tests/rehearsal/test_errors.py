"""What of a log is shown."""

from pathlib import Path

from rehearsal.errors import read_log_tail


def log(folder: Path, *lines: str) -> Path:
    path = folder / "engine.log"
    path.write_text("\n".join(lines))
    return path


def test_the_first_exception_is_shown_above_the_last_lines(tmp_path: Path) -> None:
    cause = "(EngineCore pid=7) ERROR 11-21 [core.py:1] ValueError: no room for the KV cache"
    path = log(tmp_path, "starting", cause, *["at frame"] * 30, "RuntimeError: engine died", "bye")
    assert read_log_tail(path, lines=3) == [
        cause,
        "...",
        "at frame",
        "RuntimeError: engine died",
        "bye",
    ]


def test_a_log_whose_exception_is_among_the_last_lines_is_shown_as_it_is(tmp_path: Path) -> None:
    path = log(tmp_path, "starting", "", "ValueError: no", "bye")
    assert read_log_tail(path, lines=3) == ["starting", "ValueError: no", "bye"]


def test_a_log_that_is_not_there_shows_nothing(tmp_path: Path) -> None:
    assert read_log_tail(tmp_path / "none.log") == []
