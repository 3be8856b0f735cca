"""How a pass in the engine's interpreter can end; a script stands in for the interpreter."""

import os
import re
import signal
from pathlib import Path

import pytest

from draftworth.errors import DraftworthError
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.untrusted import hide_secret
from tests.support.readings import make_output


def reader_with(script: str, folder: Path) -> Reader:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return Reader(
        python=python, target=folder / "target", folder=folder / "out", enable_thinking=False
    )


@pytest.mark.parametrize(
    ("script", "exit_code", "words"),
    [
        ("kill -ALRM $$", 1, "target: its tokenizer and chat template took too long; allowed: 600"),
        ("kill -KILL $$", 1, "draft: the pass was ended by signal 9 (Killed); its readings so far"),
        ("exit 3", 1, "draft: the pass ended with exit code 3; its readings so far are kept in"),
        ("exit 2", 2, "draft: cannot read these outputs: see the line above"),
    ],
)
def test_each_end_of_a_pass_is_one_sentence(
    tmp_path: Path, script: str, exit_code: int, words: str
) -> None:
    reader = reader_with(script, tmp_path)
    with pytest.raises(DraftworthError, match=re.escape(words)) as raised:
        reader.readings(tmp_path / "draft", [make_output()])
    assert raised.value.exit_code == exit_code


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        (
            "printf '\\033]0;a title\\007 \\377\\n\\nlast' >&2",
            "\\x1b]0;a title\\x07 \ufffd\nlast\n",
        ),
        ("head -c 2000000 /dev/zero | tr '\\0' x >&2", ("x" * 496 + " ...\n") * 31),
        ('echo "$OPENAI_API_KEY,$HF_TOKEN,$HF_HUB_OFFLINE,$OMP_NUM_THREADS" >&2', ",,1,3\n"),
        (
            'echo "a server echoed sk-of-the-user-0123456789" >&2',
            "a server echoed [OPENAI_API_KEY]\n",
        ),
        # A process that the interpreter leaves behind holds standard error open.
        ("sleep 1000 & echo $! >../pid; echo last >&2", "last\n"),
    ],
)
def test_what_the_interpreter_writes_is_text_without_secrets(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    printed: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user-0123456789")
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_user_0123456789")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    hide_secret("OPENAI_API_KEY", "sk-of-the-user-0123456789")
    with pytest.raises(DraftworthError):
        reader_with(f"exec >/dev/null; {script}; exit 3", tmp_path).readings(
            tmp_path / "draft", [make_output()]
        )
    assert capsys.readouterr().err == printed
    if (pid := tmp_path / "pid").exists():
        os.kill(int(pid.read_text()), signal.SIGKILL)
