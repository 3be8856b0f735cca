"""After `end_at_sigterm`, SIGTERM ends a program whatever its main thread waits for."""

import signal
import subprocess
import sys

from tests.conftest import ROOT

# A test fails if the program has not ended by then.
PATIENCE_SECONDS = 60.0
LOCKED = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"


def test_a_program_that_waits_for_a_lock_ends() -> None:
    script = (
        f"from pods.log import end_at_sigterm; end_at_sigterm(); print('up', flush=True); {LOCKED}"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_program_that_is_done_ends() -> None:
    script = "from pods.log import end_at_sigterm; end_at_sigterm()"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0
