"""How a pass in the engine's interpreter can end; a script stands in for the interpreter."""

import re
from pathlib import Path

import pytest

from draftworth.errors import DraftworthError
from draftworth.estimate.reader import Reader
from tests.support.readings import make_output


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
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    reader = Reader(
        python=python, target=tmp_path / "target", folder=tmp_path / "out", enable_thinking=False
    )
    with pytest.raises(DraftworthError, match=re.escape(words)) as raised:
        reader.readings(tmp_path / "draft", [make_output()])
    assert raised.value.exit_code == exit_code
