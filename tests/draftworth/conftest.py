"""A command runs in the test's own process."""

from collections.abc import Callable

import pytest

from draftworth.cli import main

# Runs a command, which must end with `code`, and returns all that it says.
Ran = Callable[..., str]


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Ran:
    def run(*words: object, code: int = 0) -> str:
        assert main([str(word) for word in words]) == code
        told = capsys.readouterr()
        return told.out + told.err

    return run
