"""The end of a pod's program that may end anywhere: at once, when Kubernetes asks for it."""

import os
import signal
import threading


def end_at_sigterm() -> None:
    """End the process with the shell's exit code for SIGTERM, 143, from now on.

    By a thread that waits for the signal, which is blocked everywhere else. Process 1 of a
    container gets no signal without a handler, but for a blocked one it is kept; and a handler in
    Python runs when the main thread does, which may be about to wait for a download for minutes.
    A child process has the signal blocked too, until it takes it again.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def end() -> None:
        os._exit(128 + signal.sigwait({signal.SIGTERM}))

    threading.Thread(target=end, name="SIGTERM", daemon=True).start()
