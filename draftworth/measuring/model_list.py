"""Asks a server for the list of its models, which also shows whether its API is OpenAI's."""

import ssl
from urllib.parse import urlsplit

from draftworth.measuring.http_client import (
    API_KEY_VARIABLE,
    ConnectError,
    Head,
    HttpError,
    address_of,
    ask,
    refusal,
)
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import MIB, one_line

_TIMEOUT_SECONDS = 5.0
_OTHER_SCHEME_SECONDS = 2.0
OPENAI_SERVER = "the address of a server with OpenAI's API, such as http://localhost:8000"
_SCHEMES = {"http": "https", "https": "http"}


class NotOpenAIError(HttpError):
    """What answers at the address cannot be measured: another kind of server, or a wrong key.

    allowed: which server can be measured. next_step: what the user can do.
    """

    def __init__(self, reason: str, *, allowed: str = OPENAI_SERVER, next_step: str) -> None:
        super().__init__(reason)
        self.allowed = allowed
        self.next_step = next_step


async def served_models(base_url: str, api_key: str | None) -> tuple[str, ...]:
    """Return the names of the models that `/v1/models` lists; empty if the server has no list.

    ConnectError: no connection to the server could be opened. NotOpenAIError: it answers in another
    way than an OpenAI-compatible server, or it refuses the key.
    """
    url = f"{base_url}/v1/models"
    try:
        head, text = await ask(
            url, timeout_seconds=_TIMEOUT_SECONDS, limit_bytes=MIB, api_key=api_key
        )
    except (HttpError, TimeoutError) as error:
        await _refuse_wrong_scheme(base_url)
        if isinstance(error, ConnectError):
            raise
        return ()  # the server may be starting, or busy
    if head.status in (401, 403):
        words = one_line(text, characters=200)
        raise NotOpenAIError(
            f"it answers HTTP {head.status}{words and f' ({words})'}",
            allowed="with its key",
            next_step=f"set the environment variable {API_KEY_VARIABLE} to its key",
        )
    if head.status == 400:
        await _refuse_wrong_scheme(base_url)
    return _names(head, text)


def _names(head: Head, text: str) -> tuple[str, ...]:
    is_html = "html" in head.headers.get("content-type", "") or text.lstrip().startswith("<")
    try:
        data = load_object(text).get("data") if head.status == 200 and not is_html else None
    except RecordError:
        data = None
    is_other_text = head.status == 200 and text.strip() and not isinstance(data, list)
    if is_html or is_other_text:
        kind = "a web page" if is_html else one_line(repr(text), characters=80)
        raise NotOpenAIError(
            f"/v1/models there answers HTTP {head.status} with {kind}, and not with a list",
            next_step="give the address at which the server has /v1/models, without this path",
        )
    if 300 <= head.status < 400:
        raise NotOpenAIError(
            f"/v1/models there answers {refusal(head)}", next_step="correct the address"
        )
    names = (one.get("id") for one in data or () if isinstance(one, dict))
    return tuple(name for name in names if isinstance(name, str))


async def _refuse_wrong_scheme(base_url: str) -> None:
    """Raise NotOpenAIError if the server speaks http and the URL says https, or the reverse."""
    parts = urlsplit(base_url)
    other = _SCHEMES[parts.scheme]
    _, port, _ = address_of(base_url)  # that of the other scheme is another port
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    other_url = f"{other}://{host}:{port}{parts.path}"
    if await _speaks(f"{other_url}/v1/models"):
        raise NotOpenAIError(
            f"the server there speaks {other}, and not {parts.scheme}",
            next_step=f"give {other_url}",
        )


async def _speaks(url: str) -> bool:
    """Return whether a server answers in the scheme of the URL; it gets no key."""
    try:
        head, _ = await ask(url, timeout_seconds=_OTHER_SCHEME_SECONDS, limit_bytes=MIB)
    except ConnectError as error:
        return isinstance(error.__cause__, ssl.SSLCertVerificationError)
    except (HttpError, TimeoutError):
        return False
    return head.status != 400  # servers of https answer 400 to a request without TLS
