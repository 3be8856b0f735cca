"""Tables, colours and hostile text in the terminal."""

import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftworth.cli import main
from draftworth.terminal import TextOnly, print_styled, table_lines, text_only
from tests.conftest import ROOT
from tests.draftworth.report.runs import make_run, write_run
from tests.hostile.fuzzing import TEXTS
from tests.support.terminal import Terminal

# Characters that a terminal reads as commands, or that change the order in which it shows text.
COMMANDS = "\x1b[2J\x1b]0;title\x07\x9b31m\u202eback\u2066\r\b\x00\ud800"


def test_a_table_is_aligned_without_trailing_blanks() -> None:
    rows = [("one", "1.5", "a"), ("eleven", "10.0", "b")]
    assert list(table_lines(rows, ("name", "usd", "what"), numbers=(1,))) == [
        "name     usd  what",
        "one      1.5  a",
        "eleven  10.0  b",
    ]


@pytest.mark.parametrize(
    ("stream", "no_color", "is_styled"),
    [(Terminal, "", True), (Terminal, "1", False), (io.StringIO, "", False)],
)
def test_a_styled_line_is_coloured_in_terminals_only(
    stream: type[io.StringIO], no_color: str, is_styled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    out = stream()
    with redirect_stdout(TextOnly(out)):
        print_styled("serve \x1b[2J it", style="green")
    assert ("\x1b[32m" in out.getvalue()) == is_styled
    assert "serve \\x1b[2J it" in out.getvalue()


def test_brackets_are_no_markup_and_cells_never_wrap() -> None:
    long = "word " * 400 + "[red]end[/red]"
    assert list(table_lines([("a", long)])) == [f"a  {long}"]


def test_a_cell_of_two_lines_keeps_its_column() -> None:
    assert list(table_lines([("a", "one\ntwo"), ("bb", "three")])) == [
        "a   one",
        "    two",
        "bb  three",
    ]


def test_control_characters_in_cells_keep_the_alignment() -> None:
    assert list(table_lines([("\x1b[1m", "1"), ("a", "2")])) == ["\\x1b[1m  1", "a        2"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp437"])
@settings(max_examples=30)
@given(text=TEXTS | st.text() | st.just(COMMANDS))
def test_whatever_is_printed_is_text_in_every_encoding(encoding: str, text: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print(text, file=TextOnly(stream), flush=True)
    printed = raw.getvalue().decode(encoding)
    assert printed.replace("\n", "").isprintable()
    assert printed.count("\n") == text.count("\n") + 1


def test_text_of_the_streams_encoding_is_not_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with text_only():
        sys.stdout.write("größe 日本語 ─ [red]\n\tnext\n")
    assert capsys.readouterr().out == "größe 日本語 ─ [red]\n\\tnext\n"


def test_both_streams_are_themselves_again_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    streams = sys.stdout, sys.stderr
    with text_only():
        sys.stderr.write("\x07\n")
    assert (sys.stdout, sys.stderr) == streams
    assert capsys.readouterr().err == "\\x07\n"


def test_a_runs_names_do_not_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = COMMANDS.replace("\ud800", "")
    run = write_run(make_run(reason=hostile, experiment=hostile), tmp_path / "run")
    assert main(["report", str(run), "--verbose"]) == 0
    output = capsys.readouterr().out
    assert "\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\u202eback\\u2066\\r\\x08\\x00" in output
    assert output.replace("\n", "").isprintable()


@pytest.mark.parametrize("argv", [["report"], ["plan"], ["report", "--nothing"]])
def test_errors_about_hostile_arguments_are_text(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # Python gives a program the bytes of its arguments that are not UTF-8 as \udc80 to \udcff.
    assert main([*argv, COMMANDS.replace("\x00", "").replace("\ud800", "\udcff")]) == 2
    assert capsys.readouterr().err.replace("\n", "").isprintable()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_missing_characters_of_a_terminal_become_escapes(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(make_run(experiment="日本語 🚀"), tmp_path / "run")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    assert main(["report", str(run), "--verbose"]) == 0
    title = b"\\u65e5\\u672c\\u8a9e \\U0001f680: does speculation pay?"
    assert raw.getvalue().startswith(title)


def test_a_closed_output_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["schema"]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_an_output_that_is_full_is_no_traceback() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "draftworth", "schema"],
            env={"PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    message = b"draftworth: [Errno 28] No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)
