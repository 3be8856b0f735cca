"""Ends a pod's program at once at SIGTERM; for programs that may end at any point."""

import os
import signal
import threading


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
