"""Asks Hugging Face whether it has a model, and whether a token may read it; downloads nothing."""

from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from draftworth.errors import DraftworthError

HUB = "https://huggingface.co"
_SECONDS = 10


class UnansweredError(DraftworthError):
    """The hub cannot be reached."""


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect, because a request may have a token, which is for the hub alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def revision_status(model: str, revision: str) -> int:
    """Return the hub's HTTP status for a model at a branch, tag or commit, without a token.

    200: both exist. 404: one does not. 401: the model does not exist, or is private.
    Raises UnansweredError if the hub cannot be reached.
    """
    return _status(f"{model}/revision/{quote(revision, safe='')}", {})


def access_status(model: str, token: str) -> int:
    """Return the hub's HTTP status for reading a model's files with a token.

    200: it may. 401: the hub refuses the token. 403: the model is gated, and the token's account
    may not read it. 404: the model does not exist, or the account may not see it.
    Raises UnansweredError if the hub cannot be reached.
    """
    return _status(f"{model}/auth-check", {"Authorization": f"Bearer {token}"})


def _status(path: str, headers: dict[str, str]) -> int:
    request = Request(f"{HUB}/api/models/{path}", headers=headers)  # noqa: S310 (HTTPS, see HUB)
    try:
        with build_opener(_NoRedirect).open(request, timeout=_SECONDS) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code
    except (OSError, HTTPException, ValueError) as error:
        # The error's own words may have the header.
        raise UnansweredError(f"{HUB} cannot be asked: {type(error).__name__}") from error
