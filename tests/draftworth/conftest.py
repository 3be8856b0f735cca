"""A fixture that runs the command line of draftworth in the test's own process."""

from collections.abc import Callable

import pytest

from draftworth.cli import main

# `ran(*words, code=0)` runs the command, asserts its exit code, and returns stdout + stderr.
Ran = Callable[..., str]


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Ran:
    def run(*words: object, code: int = 0) -> str:
        assert main([str(word) for word in words]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    return run
