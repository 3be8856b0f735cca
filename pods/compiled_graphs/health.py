"""Whether the server of this pod is healthy."""

from __future__ import annotations

import urllib.request

HEALTH_PERIOD_SECONDS = 5.0
_TIMEOUT_SECONDS = 5.0


def is_healthy(url: str) -> bool:
    """Whether it answers 200; asked directly, whatever proxy the environment names."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):  # ValueError: an answer that is no HTTP
        return False
