"""Writes a pod's log to standard error, without secrets, and ends a program at SIGTERM."""

import os
import signal
import sys
import threading
import traceback
from types import TracebackType

from draftworth.untrusted import printable, without_secrets


def log_line(line: str) -> None:
    """Write a line, without secrets, at once: the log has it even if the process ends next."""
    print(printable(without_secrets(line)), file=sys.stderr, flush=True)  # noqa: T201


def log_crashes() -> None:
    """From now on, write the traceback of an unexpected error to the log as `log_line` does."""

    def log(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log_line("".join(traceback.format_exception(kind, error, trace)).rstrip())

    sys.excepthook = log


def end_at_sigterm() -> None:
    """From now on, end the process at SIGTERM, with the shell's exit code for that signal, 143.

    A thread waits for the signal, which is blocked in all other threads. Linux discards a signal
    for which process 1 of a container has no handler, but keeps a blocked signal. A handler in
    Python would run in the main thread, which may wait minutes for a download. Child processes
    inherit the blocked signal until they unblock it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def end() -> None:
        os._exit(128 + signal.sigwait({signal.SIGTERM}))

    threading.Thread(target=end, name="SIGTERM", daemon=True).start()
