"""The end of a pod's program that may end anywhere: at once, when Kubernetes asks for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable


def end_at_sigterm(before: Callable[[], None] = lambda: None) -> None:
    """End the process with the shell's exit code for SIGTERM, 143, from now on.

    By a thread that waits for the signal, which is blocked everywhere else. Process 1 of a
    container gets no signal without a handler, but for a blocked one it is kept; and a handler in
    Python runs when the main thread does, which may be about to wait for a download for minutes.
    A child process has the signal blocked too, until it takes it again.

    before: what is done first, in that thread.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_wait, args=(before,), name="SIGTERM", daemon=True).start()


def _wait(before: Callable[[], None]) -> None:
    number = signal.sigwait({signal.SIGTERM})
    try:
        before()
    finally:
        os._exit(128 + number)
