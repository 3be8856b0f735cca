"""Errors while a rehearsal gets its engine ready."""

import re
from pathlib import Path

from draftworth.errors import DraftworthError

NEXT_STEP = (
    "remove the engine's folder (rm -rf .engine-venv) and run again, or measure your own "
    "vLLM-compatible endpoints: pass --base-url, --speculative-url and --model"
)


class EngineUnavailableError(DraftworthError):
    """The engine could not be installed, or a server of it did not come up.

    The message ends with the last lines of the log and with what the user can do now.
    """

    def __init__(self, what: str, *, log_path: Path, next_step: str = NEXT_STEP) -> None:
        self.log_path = log_path
        self.log_tail = read_log_tail(log_path)
        tail = "".join(f"\n    {line}" for line in self.log_tail) or "\n    (the log is empty)"
        super().__init__(f"{what}\n  last lines of {log_path}:{tail}\n  next step: {next_step}")


# The last line of a Python traceback, whatever a logger wrote before it.
_EXCEPTION = re.compile(r"\b[A-Za-z_][\w.]*(Error|Exception): .")


def read_log_tail(log_path: Path, *, lines: int = 15) -> list[str]:
    """Return the last `lines` non-empty lines of a log; empty if it cannot be read.

    The first exception comes before them if they do not show it: later failures follow from it.
    """
    try:
        text = log_path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    written = [line.rstrip() for line in text.splitlines() if line.strip()]
    before, tail = written[:-lines], written[-lines:]
    first = next((line for line in before if _EXCEPTION.search(line)), None)
    return [first, "...", *tail] if first else tail
