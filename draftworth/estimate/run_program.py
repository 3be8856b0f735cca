"""Runs a module of this package in a new process, which reads records (JSON lines) as its input."""

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

# The program may run in another interpreter than this process. So that it finds draftworth, the
# folder that contains this package is added to its `sys.path`. It is the last entry, because the
# folder can be a `site-packages` with other packages, which must not replace the interpreter's own.
# The current folder is not in the path, because its files can come from anybody.
_RUN = (
    "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; "
    "import runpy; runpy.run_module({module!r}, run_name='__main__')"
)

# The environment variables that an interpreter and its libraries may need. All others are left out,
# because they can hold the user's secrets: keys of servers, of Hugging Face and of AWS, and
# passwords in addresses of proxies.
_VARIABLES = (
    *("PATH", "HOME", "TMPDIR", "TZ", "LANG", "PYTHONPATH", "PYTHONHOME"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),
)
_PREFIXES = ("LC_", "OMP_", "KMP_", "MKL_")
# A line of standard error with more bytes is printed as several lines.
_LINE_BYTES = 2**16


def environment() -> dict[str, str]:
    """Return this process's environment variables without those that may hold secrets."""
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

    module: its full name. records: the lines of the program's standard input, each written as JSON.
    python: the interpreter that runs the program.
    variables: the program's environment variables in addition to `environment()`.
    folder: the folder in which the program runs; None: the current one.
    keeps_errors: return the program's standard error too; otherwise it is printed.
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
    """Yield the writing end of a pipe, to which a program can write its standard error.

    A thread prints the lines from the pipe to this process's standard error, until the `with`
    block ends.
    """
    reading, writing = os.pipe()
    # A random last line ends the reading, and not the end of the pipe: a process that the program
    # leaves behind may hold the pipe open for ever.
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
