"""Makes a child process end when its parent ends, even if the parent is killed."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def ending_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """Return a `preexec_fn` for `subprocess` that ends the child with its parent; None: not Linux.

    number: the signal that the kernel sends to the child when its parent ends. Give SIGTERM if the
    child has children of its own and ends them itself: the kernel sends them no signal.

    The kernel sends the signal when the THREAD that started the child ends, so this thread must
    outlive the child. The returned function takes no lock and imports nothing: it runs between
    `fork` and `exec`, where no other thread exists that could release a lock.
    """
    if sys.platform != "linux":
        return None
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before `prctl`, so no signal comes
            os.kill(os.getpid(), signal.SIGKILL)

    return end_with_parent
