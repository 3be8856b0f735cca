"""Starts the listener that stands in for a server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import ROOT


@contextmanager
def listening(*more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the listener at a free port; yield its process and its URL."""
    command = [sys.executable, "-m", "pods.canary.listener", "--port", "0", *more]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            port = re.search(r"at port (\d+)", line)
            assert port, line
            yield process, f"http://127.0.0.1:{port[1]}"
        finally:
            process.kill()
