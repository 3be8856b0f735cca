"""Runs a program of this package in a process of its own, with records as lines of its input."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from draftworth.child_processes import ending_with_parent
from draftworth.records.codec import dump_record

# The engine's interpreter finds this package last: in an installed environment there are other
# packages beside it, which are not the engine's. No module is looked for in the current folder,
# whose files can be anybody's.
_RUN = (
    "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; "
    "import runpy; runpy.run_module({module!r}, run_name='__main__')"
)


def run_program(
    module: str,
    records: Iterable[Any],
    *,
    python: Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
    keeps_errors: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a module as a program, and return its exit code and its standard output.

    records: each is a line of JSON in its standard input. folder: where it runs.
    keeps_errors: also return its standard error, which is printed otherwise.
    """
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.run(  # noqa: S603 (our own command line)
        [str(python.absolute()), "-c", _RUN.format(root=root, module=module)],
        input=b"".join(map(dump_record, records)),
        cwd=folder,
        # A panic of the library `tokenizers` is told in a line, without its stack.
        env={**environment, "RUST_BACKTRACE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if keeps_errors else None,
        preexec_fn=ending_with_parent(),
        check=False,
    )
