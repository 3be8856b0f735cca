"""Run a command and end everything it started, whatever happens to the process that asked.

Run as a script: ``python guard.py GRACE_SECONDS COMMAND [ARGUMENT ...]``, as the leader of a
process group of its own, with a pipe on standard input. When that pipe closes (the parent closed
it, or died, even by SIGKILL), the command gets SIGTERM, GRACE_SECONDS later the whole group gets
SIGKILL. vLLM's engine core and workers are grandchildren that a killed parent would leave running
with gigabytes of memory; a pipe closes however its writer ends.

Stdlib only, and started with ``python -I -S``: nothing of the project is imported here.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

POLL_SECONDS = 0.25  # cheap enough not to disturb a measurement


def main(arguments: Sequence[str]) -> None:
    """Guard one command; never returns, because it ends by killing its own process group."""
    grace_seconds, command = float(arguments[0]), list(arguments[1:])
    # The group is ended by this process, so a stray SIGTERM or Ctrl-C must not end it first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.Popen(  # noqa: S603 (running what it is given is its purpose)
            command, stdin=subprocess.DEVNULL, preexec_fn=_default_signals
        )
    except OSError as error:
        _say(f"cannot start {command[0]}: {error}")
        return
    asked_to_end = False
    while child.poll() is None and not asked_to_end:
        readable, _, _ = select.select([0], [], [], POLL_SECONDS)
        asked_to_end = bool(readable) and not os.read(0, 4096)
    if asked_to_end:
        child.terminate()
        try:
            child.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            _say(f"the command did not end within {grace_seconds:g} s of SIGTERM: killed")
    else:
        _say(f"the command exited with code {child.returncode}")
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _default_signals() -> None:
    """Undo the ignored signals in the child, which inherits them."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _say(message: str) -> None:
    os.write(2, f"[guard] {message}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
