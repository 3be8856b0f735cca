"""Runs a command, and ends it with all its child processes when the calling process ends.

Run as a script: ``python process_guard.py GRACE_SECONDS COMMAND [ARGUMENT ...]``, as the leader of
its own process group, with a pipe on standard input. When the pipe closes (the parent closed it, or
died, even by SIGKILL), the command gets SIGTERM, and GRACE_SECONDS later the whole group gets
SIGKILL. Otherwise vLLM's engine core and workers, which are grandchildren, would continue to run
after their parent was killed and keep gigabytes of memory. A second process, the second guard, ends
the group in this way when this process is killed; this process starts it again if it is killed. A
signal from the kernel (`PR_SET_PDEATHSIG`) would not be enough: it would reach no grandchild.

The script is started with ``python -I -S``, so it imports only the standard library.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

POLL_SECONDS = 0.25  # polling this rarely does not disturb a measurement


def main(arguments: Sequence[str]) -> None:
    """Run a command until it exits or standard input closes, then kill this process and its group.

    arguments: the grace time in seconds, then the command.
    """
    grace_seconds, command = float(arguments[0]), list(arguments[1:])
    # SIGTERM and Ctrl-C must not end this process, because it has to end the group.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    second = _start_second_guard(grace_seconds)
    try:
        child = subprocess.Popen(  # noqa: S603 (running any command is its purpose)
            command, stdin=subprocess.DEVNULL, preexec_fn=_default_signals
        )
    except OSError as error:
        _say(f"cannot start {command[0]}: {error}")
        return
    pipe_closed = False
    while child.poll() is None and not pipe_closed:
        readable, _, _ = select.select([0], [], [], POLL_SECONDS)
        pipe_closed = bool(readable) and not os.read(0, 4096)
        if os.waitpid(second, os.WNOHANG)[0]:
            second = _start_second_guard(grace_seconds)
    if pipe_closed:
        child.terminate()
        try:
            child.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            _say(f"the command did not end within {grace_seconds:g} s of SIGTERM: killed")
    else:
        _say(f"the command exited with code {child.returncode}")
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _start_second_guard(grace_seconds: float) -> int:
    """Start a second guard, which ends this process group when this process ends.

    Return its process id. The second guard notices the end by a pipe, which closes when this
    process ends. The guarded command does not keep the pipe open, because it inherits only
    standard input, output and error.
    """
    reading, writing = os.pipe()
    if second := os.fork():
        os.close(reading)
    else:
        os.close(writing)
        _end_group_after(reading, grace_seconds)
    return second


def _end_group_after(pipe: int, grace_seconds: float) -> None:
    """Wait until the pipe closes, then kill the group, and this process with it."""
    os.read(pipe, 1)
    _say("the guard has ended: the group is ended")
    os.killpg(os.getpgid(0), signal.SIGTERM)
    time.sleep(grace_seconds)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _default_signals() -> None:
    """Restore the default signal handlers: a child process inherits ignored signals."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _say(message: str) -> None:
    os.write(2, f"[guard] {message}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
