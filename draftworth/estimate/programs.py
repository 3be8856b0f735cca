"""Runs a program of this package in a process of its own, with records as lines of its input."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from draftworth.child_processes import ending_with_parent
from draftworth.records.codec import dump_record
from draftworth.untrusted import one_line

# The engine's interpreter finds this package last: in an installed environment there are other
# packages beside it, which are not the engine's. No module is looked for in the current folder,
# whose files can be anybody's.
_RUN = (
    "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; "
    "import runpy; runpy.run_module({module!r}, run_name='__main__')"
)

# What an interpreter and its libraries may need of the environment, in which there can be keys of
# the user: those of servers, of the hub and of AWS, and passwords in addresses of proxies.
_VARIABLES = (
    *("PATH", "HOME", "TMPDIR", "TZ", "LANG", "PYTHONPATH", "PYTHONHOME"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),
)
_PREFIXES = ("LC_", "OMP_", "KMP_", "MKL_")
# A longer line is printed as several ones.
_LINE_BYTES = 2**16


def environment() -> dict[str, str]:
    """Return what a program gets of this process's environment: nothing with keys of the user."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _VARIABLES or name.startswith(_PREFIXES)
    }


def run_module(
    module: str,
    records: Iterable[Any],
    *,
    python: Path,
    variables: Mapping[str, str],
    folder: Path | None = None,
    keeps_errors: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a module as a program, and return its exit code and its standard output.

    records: each is a line of JSON in its standard input. folder: where it runs.
    variables: what its environment has besides `environment()`.
    keeps_errors: also return its standard error, which is printed otherwise, as text.
    """
    root = str(Path(__file__).resolve().parents[2])
    with nullcontext(subprocess.PIPE) if keeps_errors else _printed() as errors:
        return subprocess.run(  # noqa: S603 (our own command line)
            [str(python.absolute()), "-c", _RUN.format(root=root, module=module)],
            input=b"".join(map(dump_record, records)),
            cwd=folder,
            # If the library `tokenizers` panics, it prints one line without a stack trace.
            env={**environment(), **variables, "RUST_BACKTRACE": "0"},
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=ending_with_parent(),
            check=False,
        )


@contextmanager
def _printed() -> Iterator[int]:
    """Yield a pipe for the standard error of a program; print what it has until the block ends."""
    reading, writing = os.pipe()
    # A process that the program leaves behind may hold the pipe open for ever.
    last = secrets.token_hex(16).encode()
    printing = Thread(target=_print_lines, args=(reading, last), daemon=True)
    printing.start()
    try:
        yield writing
    finally:
        with suppress(BrokenPipeError):
            os.write(writing, b"\n" + last + b"\n")
        os.close(writing)
        printing.join()


def _print_lines(reading: int, last: bytes) -> None:
    with os.fdopen(reading, "rb") as pipe:
        while (line := pipe.readline(_LINE_BYTES)) and line != last + b"\n":
            if text := one_line(line.decode(errors="replace")):
                print(text, file=sys.stderr, flush=True)  # noqa: T201
