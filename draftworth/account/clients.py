"""Clients of AWS services in one region, and what their errors mean for the user.

Botocore raises late: a client without credentials is made without complaint and fails at its first
call. So calls stand in `explained`, which turns every such failure into one sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import boto3
import jmespath
from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError

# A person waits for the answer: give up on a network that is not there within half a minute.
CONFIG = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 4}
)
# Where many regions are asked at once, one that does not answer is given up sooner.
QUICK = Config(
    connect_timeout=4, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 3}
)
_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.ProfileNotFound,
    exceptions.SSOError,
    exceptions.TokenRetrievalError,
)
_BAD_CREDENTIAL_CODES = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_DENIED_CODES = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_LOG_IN = (
    "log in (`aws sso login`, `aws configure`) or set AWS_PROFILE, and try "
    "`aws sts get-caller-identity`"
)
_NAME_A_PROFILE = (
    "put one that `aws configure list-profiles` lists into AWS_PROFILE, or unset it (and in "
    "~/.aws/config what names this one)"
)
_TRY_AGAIN = "try again; if it stays, the service's documentation says what the error means"
_CONNECT = (
    "check the network and any proxy, and that aws.region is a region of this account's partition"
)


class AwsError(DraftworthError):
    """AWS could not be asked, or refused.

    `reason`: what happened; `next_step`: what to do.
    """

    def __init__(self, reason: str, *, next_step: str) -> None:
        super().__init__(f"{reason}; next: {next_step}")
        self.reason = reason
        self.next_step = next_step


class DeniedError(AwsError):
    """The credentials are good, and may not do this."""


# boto3's default session makes one client at a time; clients themselves serve several threads.
_making = threading.Lock()


def client(service: str, region: str = "", *, config: Config = CONFIG) -> Any:
    """A client by its boto3 name; without a region boto3 looks one up."""
    with explained(f"make a client of {service}", region=region), _making:
        return boto3.client(service, region_name=region or None, config=config)  # type: ignore[call-overload]


@contextmanager
def explained(doing: str, *, region: str = "") -> Iterator[None]:
    """Turn the errors of botocore inside the block into an AwsError.

    `doing` completes "could not ...", for example `list the buckets`.
    """
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise explanation(error, doing, region=region) from error


def explanation(error: ClientError | BotoCoreError, doing: str, *, region: str = "") -> AwsError:
    """What went wrong, where, and what to do next."""
    # Without credentials nobody was asked: where does not matter, and may be another region than
    # the reader's, where all accounts can be asked.
    where = "" if isinstance(error, _NO_CREDENTIALS) else region
    failed = f"could not {doing} in {where}" if where else f"could not {doing}"
    code, found = "", str(error).rstrip(".")
    if isinstance(error, ClientError):
        code = error_code(error)
        message = str(error.response.get("Error", {}).get("Message", "")).strip()
        found = f"{code}: {message or 'no message'}"
        if code in _DENIED_CODES:
            next_step = f"allow {error.operation_name} to the role or user you work with"
            return DeniedError(f"{failed}: {found}", next_step=next_step)
    next_step = _TRY_AGAIN
    if isinstance(error, exceptions.ProfileNotFound):
        next_step = _NAME_A_PROFILE
    elif code in _BAD_CREDENTIAL_CODES or isinstance(error, _NO_CREDENTIALS):
        next_step = _LOG_IN
    elif isinstance(error, (exceptions.EndpointConnectionError, exceptions.HTTPClientError)):
        next_step = _CONNECT
    return AwsError(f"{failed}: {found}", next_step=next_step)


def error_code(error: ClientError) -> str:
    """AWS's word for the error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def or_none(call: Callable[..., Any], *missing: str, **asked: Any) -> Any:
    """The answer of a call; None at an error whose code begins with one of `missing`."""
    try:
        return call(**asked)
    except ClientError as error:
        if error_code(error).startswith(missing):
            return None
        raise


def listed(client: Any, operation: str, result: str, **asked: Any) -> Iterator[Any]:
    """Every entry of a listing, of all its pages; `result`: their JMESPath in an answer."""
    if client.can_paginate(operation):
        answers = client.get_paginator(operation).paginate(**asked)
    else:
        answers = [getattr(client, operation)(**asked)]
    for answer in answers:
        yield from jmespath.search(result, answer) or ()


def tags_of(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """Tags in an answer: services name them differently, and some list pairs of Key and Value."""
    tags: Any = next((answer[key] for key in ("Tags", "TagSet", "tags") if key in answer), {})
    return tags if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}


def tags_of_bucket(s3: Any, name: str) -> Mapping[str, str]:
    """A bucket's tags; none where it has none, or is gone since it was listed."""
    return tags_of(or_none(s3.get_bucket_tagging, "NoSuch", Bucket=name) or {})


# Makes a client of a service in a region: `draftworth.account.clients.client`, or a test's.
Clients = Callable[[str, str], Any]


@dataclass(frozen=True, kw_only=True)
class Region:
    """A region and its clients, each made once.

    answers_for_all: it is asked about the whole account or every region, and errors do not name it:
    the reader's region may be another.
    """

    name: str
    clients: Clients
    answers_for_all: bool = False

    @cached_property
    def client(self) -> Callable[[str], Any]:
        """Gives the client of a service here."""
        return cache(lambda service: self.clients(service, self.name))

    def ask(self, doing: str, service: str, operation: str, *missing: str, **asked: Any) -> Any:
        """The answer of a call; None at an error whose code begins with one of `missing`.

        At another error an AwsError, which says "could not" with `doing`.
        """
        with explained(doing, region=self._told):
            return or_none(getattr(self.client(service), operation), *missing, **asked)

    def list_all(
        self, doing: str, service: str, operation: str, result: str, **asked: Any
    ) -> list[Any]:
        """Every entry of a listing; `result`: their JMESPath in an answer."""
        with explained(doing, region=self._told):
            return [*listed(self.client(service), operation, result, **asked)]

    @property
    def _told(self) -> str:
        return "" if self.answers_for_all else self.name
