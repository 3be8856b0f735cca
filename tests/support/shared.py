"""Shares what one process of a test run makes with all others, such as a CDK synthesis.

Each pytest-xdist worker is a process. The first one that asks makes the result in a folder of the
run; the others wait and read it. The folder is in pytest's base folder, which is new for each run,
so nothing of an older run is read; pytest removes all base folders but the last three.
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
    """Set this run's folder; `tests/conftest.py` calls this before the first test."""
    base = factory.getbasetemp()
    # A worker's base folder is in the base folder of the process that started the run.
    _run[:] = [(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"]


def shared_folder(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder of this name, which `make` fills once in a test run.

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
    """Return the JSON value of this name, which `make` computes once in a test run."""
    folder = shared_folder(name, lambda path: (path / "value.json").write_text(json.dumps(make())))
    return json.loads((folder / "value.json").read_text())
