"""What an answer means that is no stream of tokens: a sentence that says what to do."""

from __future__ import annotations

from draftworth.measuring.http import Head
from draftworth.untrusted import one_line

_TOO_MANY_REQUESTS = 429
_STREAM_TYPE = "text/event-stream"
_WORDS_CHARACTERS = 200


def refusal(head: Head, body: bytes = b"") -> str:
    """An answer whose status is not 200, with the beginning of what it says."""
    said = _said(head, body)
    location, retry_after = _words(head, "location"), _words(head, "retry-after")
    if 300 <= head.status < 400 and location:
        return (
            f"HTTP {head.status}, a redirect to {location}, which is not followed; next: give the "
            "address that it leads to"
        )
    wait = f" (Retry-After: {retry_after})" if retry_after else ""
    if head.status == _TOO_MANY_REQUESTS:
        return (
            f"too many requests: the server limits their rate{wait}; next: a smaller load, or a "
            f"higher limit there{_after(said)}"
        )
    return f"{said}{wait}" if said else f"HTTP {head.status}{wait}"


def why_no_stream(head: Head) -> str:
    """Why the body of a 200 cannot be read as a stream of events; empty if it can.

    Without a content type it is tried. A wrong one ends it, as the standard of event streams asks.
    """
    if encoding := _encoding(head):
        return (
            f"the answer is compressed ({encoding}), which was not asked for and hides when tokens "
            "come; next: switch compression off in the server or the proxy before it"
        )
    kind = _words(head, "content-type")
    media_type = kind.partition(";")[0].strip().lower()
    if media_type in ("", _STREAM_TYPE):
        return ""
    if media_type == "application/json":
        return (
            "one JSON answer instead of a stream; next: find out why the server, or a proxy before "
            'it, ignores "stream": true'
        )
    return (
        f"the answer is {kind}, not {_STREAM_TYPE}; next: check that the base URL is that of an "
        "OpenAI-compatible server"
    )


def no_stream(head: Head, body: bytes) -> str:
    """`why_no_stream` with the beginning of the body, where that is text."""
    return why_no_stream(head) + _after(_said(head, body))


def _said(head: Head, body: bytes) -> str:
    return "" if _encoding(head) else one_line(body.decode("utf-8", "replace"))


def _encoding(head: Head) -> str:
    """How the body is compressed; empty if it is not."""
    encoding = _words(head, "content-encoding")
    return "" if encoding.lower() == "identity" else encoding


def _after(said: str) -> str:
    return f"; it says: {said}" if said else ""


def _words(head: Head, name: str) -> str:
    return one_line(head.headers.get(name, ""), characters=_WORDS_CHARACTERS)
