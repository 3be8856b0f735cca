"""What all Lambda functions share: limits of AWS clients, the log, Lambda's context object."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from botocore.config import Config

CLIENT_CONFIG = Config(
    connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4}
)

Log = Callable[[Mapping[str, Any]], None]


class Context(Protocol):
    """The part of Lambda's context object that the functions use."""

    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends the invocation."""


def log_line(entry: Mapping[str, Any]) -> None:
    """Print one JSON line, which Lambda sends to CloudWatch Logs unchanged."""
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()
