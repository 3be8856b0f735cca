"""Writes a pod's log to standard error, and ends a program at SIGTERM."""

import os
import signal
import sys
import threading

from draftworth.untrusted import printable


def log_line(line: str) -> None:
    """Write a line without buffering, so that the log has it even if the process ends next."""
    print(printable(line), file=sys.stderr, flush=True)  # noqa: T201


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
