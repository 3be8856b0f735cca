"""The measuring Job's program, for the tests of this folder."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftworth.measuring import run_specification
from draftworth.records.codec import dump_text
from pods.measuring.program import main
from tests.support.measuring_job import Program


@pytest.fixture
def program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Program]:
    """The program in this process, for tests where neither image nor process id matters."""
    monkeypatch.setattr("pods.measuring.engine_choice.raise_scheduling_class", lambda: "ordinary")
    handler = signal.getsignal(signal.SIGTERM)

    def run(
        spec: run_specification.RunSpec | str, *arguments: str, **variables: str
    ) -> tuple[int, str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        path = tmp_path / "spec.json"
        path.write_text(spec if isinstance(spec, str) else dump_text(spec))
        words = ["--run-spec", str(path), "--results", str(tmp_path / "out"), *arguments]
        return main(words), capsys.readouterr().err

    yield run
    signal.signal(signal.SIGTERM, handler)
