"""What one process of a test run makes and all others read, such as a synthesis.

Each of pytest-xdist's workers is a process of its own. The first that asks makes the thing in a
folder of the run, the others wait and read. The folder is below pytest's base folder, a new one a
run, so nothing of an older run is ever read; pytest removes all but the last three.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_run: list[Path] = []


def begin(factory: pytest.TempPathFactory) -> None:
    """Say where this run's folder is; `tests/conftest.py` calls it before the first test."""
    base = factory.getbasetemp()
    # A worker's base folder lies in that of the process that started the run.
    _run[:] = [(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"]


def shared_folder(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name, filled by `make` once in a test run.

    Args:
        name: a file name, the same in all processes for the same content.
        make: fills the empty folder that it is given. If it fails, its folder is removed, and the
            next process that asks makes it again.
    """
    (run,) = _run
    run.mkdir(exist_ok=True)
    made, partial = run / name, run / f"{name}.partial"
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(made)
    return made


def shared_json(name: str, make: Callable[[], Any]) -> Any:
    """The JSON value of this name, made once in a test run."""
    folder = shared_folder(name, lambda path: (path / "value.json").write_text(json.dumps(make())))
    return json.loads((folder / "value.json").read_text())
