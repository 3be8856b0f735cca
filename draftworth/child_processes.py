"""Lets a child process end with its parent, even one that is killed and can end nothing itself."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def ending_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """Return a `preexec_fn` for `subprocess`; None where the system cannot do it (not Linux).

    number: the signal that the kernel sends to the child when its parent ends. SIGTERM is for a
    child that ends processes of its own, which get no signal.

    The kernel sends it when the THREAD ends that starts the child: that one must outlive the child.
    The function takes no lock and imports nothing, because no other thread exists in the new
    process that could release one.
    """
    if sys.platform != "linux":
        return None
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it has ended before the call, so no signal comes
            os.kill(os.getpid(), signal.SIGKILL)

    return end_with_parent
