"""Types and checks of arguments of several commands. A message never shows a secret."""

import argparse
import os
from datetime import UTC, date, datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

from draftworth.errors import UserInputError
from draftworth.measuring.http import API_KEY_VARIABLE, address_of, bearer
from draftworth.records.prompts import PLAIN_NAME_WORDS, is_plain_name
from draftworth.records.results import MAX_TEMPERATURE, MIN_TEMPERATURE, check_temperature
from draftworth.untrusted import one_line

LONGEST_MODEL_CHARACTERS = 200
LONGEST_TEXT_CHARACTERS = 200
_URL = "allowed: http://HOST:PORT or https://HOST, for example http://localhost:8000"


def whole_number(text: str, *, at_least: int = 0, at_most: int = 1_000_000) -> int:
    """Parse an argument that is a whole number in a range."""
    try:
        value = int(text)
    except ValueError:
        value = at_least - 1
    if not at_least <= value <= at_most:
        raise argparse.ArgumentTypeError(
            f"given {_shown(text)}, allowed: a whole number, {at_least} to {at_most:,}"
        )
    return value


positive_int = partial(whole_number, at_least=1)


def positive_number(text: str) -> float:
    """Parse an argument that is a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value <= 1e6:
        raise argparse.ArgumentTypeError(
            f"given {_shown(text)}, allowed: a number above 0, from 0.000001 to 1,000,000"
        )
    return value


def temperature(text: str) -> float:
    """Parse an argument that is a temperature: 0, or one that servers do not change."""
    try:
        value = float(text)
        check_temperature(value)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"given {_shown(text)}, allowed: 0, which is greedy, or {MIN_TEMPERATURE:g} to "
            f"{MAX_TEMPERATURE:g}"
        ) from None
    return value


def past_day(text: str) -> date:
    """Parse an argument that is a day which has begun somewhere on earth."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.max
    if day > datetime.now(UTC).date() + timedelta(days=1):
        raise argparse.ArgumentTypeError(
            f"given {_shown(text)}, allowed: a day as YYYY-MM-DD, today or earlier"
        )
    return day


def short_text(text: str) -> str:
    """Parse an argument that is a line for people."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_TEXT_CHARACTERS:
        raise argparse.ArgumentTypeError(
            f"given {_shown(text)}, allowed: one line of 1 to {LONGEST_TEXT_CHARACTERS} printable "
            "characters"
        )
    return text.strip()


def model_name(text: str, *, option: str = "--model") -> str:
    """Return a model's name on a server; raise UserInputError if no model can have it."""
    good = text.isprintable() and text == text.strip() and ".." not in text.split("/")
    if not good or not 1 <= len(text) <= LONGEST_MODEL_CHARACTERS:
        raise UserInputError(
            f"{option}: given {_shown(text)}, allowed: 1 to {LONGEST_MODEL_CHARACTERS} printable "
            "characters, no blank at either end and no `..` between slashes; next: serve the "
            "model under a name of its own (vLLM: --served-model-name)"
        )
    return text


def name_in_files(text: str) -> str:
    """Return a variant's name; raise UserInputError if files and metrics cannot have it."""
    if not is_plain_name(text):
        raise UserInputError(
            f"--name: given {_shown(text)}, allowed: {PLAIN_NAME_WORDS}, because it is part of "
            "file names and of metrics"
        )
    return text


def base_url(url: str, *, option: str = "--base-url") -> str:
    """Return a base URL without a trailing slash or `/v1`; raise UserInputError for other text."""
    if problem := _problem_of_url(url):
        raise UserInputError(f"{option}: {problem}; {_URL}")
    return url.rstrip("/").removesuffix("/v1")


def _problem_of_url(url: str) -> str:
    """Return the problem of an address, without parts that may be a secret; empty: it is good."""
    if "@" in url:
        return (
            "given an address with a user name or password (not shown), which would be written "
            f"into logs and files; set {API_KEY_VARIABLE} for a server that wants a key"
        )
    if "?" in url or "#" in url:
        return "given an address with a query or fragment (not shown), which has no meaning here"
    if not url.isprintable() or " " in url:
        return f"given {_shown(url)}: a blank or a control character in it"
    try:
        address_of(url)
    except ValueError as error:
        return f"given {_shown(url)}: {one_line(str(error))}"
    if not urlsplit(url).path.isascii():
        return f"given {_shown(url)}: a path with characters that are not ASCII"
    return ""


def check_api_key() -> None:
    """Raise UserInputError, without the key, for one that no HTTP header can carry."""
    bearer(os.environ.get(API_KEY_VARIABLE))


def _shown(text: str) -> str:
    return repr(one_line(text, characters=80))
