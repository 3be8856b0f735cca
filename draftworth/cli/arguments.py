"""Parses and checks arguments that several commands have, and gets the runs that they name.

No error message contains a secret.
"""

import argparse
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from ipaddress import IPv6Address
from pathlib import Path
from urllib.parse import urlsplit

from draftworth import errors, untrusted
from draftworth.measuring.http_client import API_KEY_VARIABLE, address_of, bearer
from draftworth.records import findings, results, run_folder
from draftworth.records.prompt_files import PLAIN_NAME_WORDS, is_plain_name

LONGEST_MODEL_CHARACTERS = 200
LONGEST_TEXT_CHARACTERS = 200
_URL = "allowed: http://HOST:PORT or https://HOST, for example http://localhost:8000"
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]{1,80}(:[0-9]{1,5})?")
# The ends of addresses that documentation of servers shows, and that are not the server's own.
_CALLS = ("/chat/completions", "/completions", "/v1/models", "/health", "/metrics")
# Names and addresses of this machine. The unspecified addresses 0.0.0.0 and :: are among them,
# because a connection to one of these reaches this machine.
_THIS_MACHINE = ("localhost", "127.0.0.1", "0.0.0.0", "::1", "::")  # noqa: S104 (nothing is bound)
_EXPERIMENT_FILES = (".yaml", ".yml")
S3_SCHEME = "s3://"
RUN_WORDS = "the folder of a run, ended or not, or s3://BUCKET/PREFIX of one"
RUN_LIST_WORDS = (
    f"s3://BUCKET, s3://BUCKET/{results.RUNS_FOLDER} or an experiment file: lists its runs"
)


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Add the argument `experiment`, an experiment file."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")


def whole_number(text: str, *, at_least: int = 0, at_most: int = 1_000_000) -> int:
    """Parse a whole number; raise ArgumentTypeError if it is not from `at_least` to `at_most`."""
    try:
        value = int(text)
    except ValueError:
        value = at_least - 1
    if not at_least <= value <= at_most:
        raise _refused(text, f"a whole number, {at_least} to {at_most:,}")
    return value


positive_int = partial(whole_number, at_least=1)


def positive_number(text: str) -> float:
    """Parse a number; raise ArgumentTypeError if it is not from 0.000001 to 1,000,000."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value <= 1e6:
        raise _refused(text, "a number above 0, from 0.000001 to 1,000,000")
    return value


def temperature(text: str) -> float:
    """Parse a sampling temperature: 0 (greedy), or a value in the range that all servers accept.

    ArgumentTypeError: some servers would refuse the value, or silently use another one.
    """
    try:
        value = float(text)
        results.TEMPERATURES.check("temperature", value)
    except ValueError:
        allowed = (
            f"0, which is greedy, or {results.MIN_TEMPERATURE:g} to {results.MAX_TEMPERATURE:g}"
        )
        raise _refused(text, allowed) from None
    return value


def past_day(text: str) -> date:
    """Parse a day as YYYY-MM-DD; raise ArgumentTypeError if it is invalid or in the future.

    Tomorrow's date in UTC is allowed, because that day has begun in some time zones.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.max
    if day > datetime.now(UTC).date() + timedelta(days=1):
        raise _refused(text, "a day as YYYY-MM-DD, today or earlier")
    return day


def existing_path(text: str, *, allowed: str = "a file or folder that exists") -> Path:
    """Return the path of a file or folder; raise ArgumentTypeError if there is none."""
    if not os.path.lexists(text):
        raise _refused(text, f"{allowed}{errors.path_suggestion(Path(text))}")
    return Path(text)


def run_place(text: str) -> str:
    """Return the folder or S3 address of a run; its `run.json` or another record stands for it.

    An experiment file stands for its runs. ArgumentTypeError: there is no such folder or file, or
    the address in S3 has no bucket.
    """
    place = of_record(text)
    if place.startswith(S3_SCHEME):
        try:
            run_folder.parse_s3_url(place)
        except errors.UserInputError as error:  # argparse adds the argument's name
            raise argparse.ArgumentTypeError(str(error)) from None
        return place
    return str(existing_path(place, allowed=RUN_WORDS))


def of_record(text: str) -> str:
    """Return the place of the run whose `run.json` or another record is named; else the text."""
    folder, _, name = text.rpartition("/")
    is_record = name in (results.RUN_FILE, results.SPECIFICATION_FILE, findings.VERDICT_FILE)
    return (folder or ".") if is_record else text


def run_folder_of(text: str) -> Path:
    """Return the folder of a run on this machine, as `run_place` does."""
    return existing_path(of_record(text), allowed="the folder of a run that did not end")


def short_text(text: str) -> str:
    """Return a text of one line without the blanks at its ends.

    ArgumentTypeError: it is not one line of 1 to 200 printable characters.
    """
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_TEXT_CHARACTERS:
        allowed = f"one line of 1 to {LONGEST_TEXT_CHARACTERS} printable characters"
        raise _refused(text, allowed)
    return text.strip()


def model_name(text: str, *, option: str = "--model") -> str:
    """Return `text`, a model's name on a server; raise UserInputError if it is not allowed."""
    good = text.isprintable() and text == text.strip() and ".." not in text.split("/")
    if not good or not 1 <= len(text) <= LONGEST_MODEL_CHARACTERS:
        raise errors.UserInputError(
            f"{option}: given {_quoted(text)}, allowed: 1 to {LONGEST_MODEL_CHARACTERS} printable "
            "characters, no blank at either end and no `..` between slashes; next: serve the "
            "model under a name of its own (vLLM: --served-model-name)"
        )
    return text


def name_in_files(text: str, *, option: str = "--name") -> str:
    """Return `text`, a name for files and metrics; raise UserInputError if it cannot be one."""
    if not is_plain_name(text):
        raise errors.UserInputError(
            f"{option}: given {_quoted(text)}, allowed: {PLAIN_NAME_WORDS}, because it is part of "
            "file names and of metrics"
        )
    if text in results.RESERVED_NAMES:
        raise errors.UserInputError(
            f"{option}: given {_quoted(text)}, allowed: another name than "
            f"{' and '.join(results.RESERVED_NAMES)}, which mean a certain server in a run's files"
        )
    return text


def base_url(url: str, *, option: str = "--base-url") -> str:
    """Return a base URL without a trailing slash or `/v1`; raise UserInputError if invalid."""
    if problem := _problem_of_url(url):
        raise errors.UserInputError(f"{option}: {problem}; {_URL}")
    return url.rstrip("/").removesuffix("/v1")


def server_at(base_url: str) -> tuple[str, int, str]:
    """Return host, port and path of a valid base URL; two URLs of one server give the same result.

    An IP address is read as the HTTP client reads it (`127.1` is 127.0.0.1), and all names and
    addresses in `_THIS_MACHINE` are one host. Host names are not looked up in DNS, so two names of
    one remote machine count as two servers.
    """
    host, port, _ = address_of(base_url)
    host = host.encode("idna").decode().lower().rstrip(".")
    with suppress(socket.gaierror):
        (first, *_) = socket.getaddrinfo(
            host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST
        )
        host, _ = socket.getnameinfo(first[4], socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    with suppress(ValueError):
        host = str(IPv6Address(host).ipv4_mapped or host)
    path = urlsplit(base_url).path.rstrip("/")
    return _THIS_MACHINE[0] if host in _THIS_MACHINE else host, port, path


def is_this_machine(base_url: str) -> bool:
    """Return whether the server of a valid base URL is on this machine."""
    return server_at(base_url)[0] == _THIS_MACHINE[0]


def _problem_of_url(url: str) -> str:
    """Return what is wrong with a URL, without parts that may be secret; empty if nothing is."""
    if "@" in url:
        return (
            "given an address with a user name or password (not shown), which would be written "
            f"into logs and files; set {API_KEY_VARIABLE} for a server that wants a key"
        )
    if "?" in url or "#" in url:
        return "given an address with a query or fragment (not shown), which has no meaning here"
    if not url.isprintable() or " " in url:
        return f"given {_quoted(url)}: a blank or a control character in it"
    try:
        address_of(url)
    except ValueError as error:
        advice = f"; next: http://{url}" if _HOST_AND_PORT.fullmatch(url) else ""
        return f"given {_quoted(url)}: {untrusted.one_line(str(error))}{advice}"
    path = urlsplit(url).path
    if not path.isascii():
        return f"given {_quoted(url)}: a path with characters that are not ASCII"
    if call := next((call for call in _CALLS if path.rstrip("/").endswith(call)), ""):
        server = url.rstrip("/").removesuffix(call).removesuffix("/v1")
        return f"given {_quoted(url)}, which is one call of the server {server}"
    return ""


def check_api_key() -> None:
    """Raise UserInputError, without showing the API key, if no HTTP header can carry the key."""
    bearer(os.environ.get(API_KEY_VARIABLE))


def _refused(text: str, allowed: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"given {_quoted(text)}, allowed: {allowed}")


def _quoted(text: str) -> str:
    return repr(untrusted.one_line(text, characters=80))


@contextmanager
def local_run(run_at: str) -> Iterator[Path]:
    """Yield a run's folder; a run in S3 is copied into a folder that is deleted afterwards."""
    if not run_at.startswith(S3_SCHEME):
        yield Path(run_at)
        return
    # Imported only if the run is in S3, because the module imports boto3, which is slow to import
    # and may not be installed.
    from draftworth.account.s3_downloads import download_run

    with tempfile.TemporaryDirectory(prefix="draftworth-") as folder:
        download_run(run_at, Path(folder))
        try:
            yield Path(folder)
        except errors.UserInputError as error:
            raise errors.UserInputError(str(error).replace(folder, run_at.rstrip("/"))) from error


def run_list(runs_at: str) -> Iterator[str] | None:
    """Return lines that list an experiment's or a bucket's runs; None if `runs_at` is one run."""
    if runs_at.endswith(_EXPERIMENT_FILES) and not runs_at.startswith(S3_SCHEME):
        from draftworth.account.run_list import lines_of_experiment

        return lines_of_experiment(Path(runs_at))
    if not runs_at.startswith(S3_SCHEME):
        return None
    _, prefix = run_folder.parse_s3_url(runs_at)
    if prefix.strip("/").rpartition("/")[2] not in ("", results.RUNS_FOLDER):
        return None
    from draftworth.account.run_list import lines_of_address

    return lines_of_address(runs_at)
