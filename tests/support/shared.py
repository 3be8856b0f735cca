"""Makes a slow result, such as a CDK synthesis, once for all processes of a test run.

Each pytest-xdist worker is a process. The first one that needs a result writes it to a folder; the
others wait and read it. The folder is in pytest's base folder, which is new for each run, so no
result of an older run is read; pytest removes all base folders but the last three.
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
    """Set the folder of this test run's results; `tests/conftest.py` calls it before any test."""
    base = factory.getbasetemp()
    # A worker's base folder is in the base folder of the process that started the run.
    _run[:] = [(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"]


def shared_folder(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder `name`, which `make` fills once in a test run for all its processes.

    Args:
        name: a file name, the same in all processes for the same content.
        make: fills the empty folder that it is given. If it fails, its folder is removed, and the
            next process that asks for it tries again.
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
    """Return the JSON value `name`, which `make` computes once in a test run for all processes."""
    folder = shared_folder(name, lambda path: (path / "value.json").write_text(json.dumps(make())))
    return json.loads((folder / "value.json").read_text())
