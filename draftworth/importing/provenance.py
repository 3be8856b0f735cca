"""Reads which model answered a logged request, and when it was asked."""

import re
from datetime import UTC, datetime

# A model's name is printed; a text with blanks is not, because people may have written it.
_MODEL_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,127}", re.ASCII)
# Numbers above this are no seconds since 1970, but their thousandth parts.
_MOST_SECONDS = 1e11


def model_name(value: object) -> str | None:
    """Return the name of a model; None: the value is no such name."""
    return value if isinstance(value, str) and _MODEL_NAME.fullmatch(value) else None


def logged_time(value: object) -> datetime | None:
    """Return a log's time: text as in ISO 8601, or seconds, ms, us or ns since 1970; None: neither.

    A time without a zone is taken as UTC.
    """
    if isinstance(value, str) and not value.isdecimal():
        try:
            time = datetime.fromisoformat(value[:40])
        except ValueError:
            return None
        return time.replace(tzinfo=time.tzinfo or UTC)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
        for _ in range(3):  # ms, us, ns
            seconds = seconds / 1000 if seconds > _MOST_SECONDS else seconds
        return datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
