"""Clients of AWS services in one region, and errors that say what the user can do next.

A client can be made without credentials, and its first call then fails. So not only the making of a
client but also each call is wrapped in `explained`, which turns botocore's errors into `AwsError`.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import boto3
import jmespath
import yaml
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from draftworth.account.proxy_pages import check_answers
from draftworth.errors import DraftworthError

# A person waits for the answer, so a call without a network fails within half a minute.
CONFIG = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 4}
)
_DENIED_CODES = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_ADVICE = yaml.safe_load(
    files("draftworth.account").joinpath("error_advice.yaml").read_text(encoding="utf-8")
)


class AwsError(DraftworthError):
    """An error of a call to AWS: what happened (`reason`) and what to do (`next_step`)."""

    def __init__(self, reason: str, *, next_step: str) -> None:
        super().__init__(f"{reason}; next: {next_step}")
        self.reason = reason
        self.next_step = next_step


class DeniedError(AwsError):
    """AWS accepts the credentials, but they do not allow this call."""


# boto3's clients are thread-safe, but its default session, which makes them, is not.
_making = threading.Lock()


def client(service: str, region: str = "") -> Any:
    """Return the client of a service, by boto3's name; without `region` boto3's default is used."""
    with explained(f"make a client of {service}", region=region), _making:
        made = boto3.client(service, region_name=region or None, config=CONFIG)  # type: ignore[call-overload]
        check_answers(made)
        return made


@contextmanager
def explained(doing: str, *, region: str = "") -> Iterator[None]:
    """Turn botocore's errors in the `with` block into an AwsError that says "could not `doing`".

    region: the region that was called, for the error's text; empty: the text names no region.
    """
    try:
        yield
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        raise explanation(error, doing, region=region) from error


def explanation(
    error: ClientError | BotoCoreError | ResponseParserError, doing: str, *, region: str = ""
) -> AwsError:
    """Return an error that says what failed ("could not" + `doing`), where, and what to do next."""
    code = error_code(error) if isinstance(error, ClientError) else ""
    names = {code, *(kind.__name__ for kind in type(error).__mro__)}
    advice = next(row for row in _ADVICE if names & {*row["errors"]})
    where = f" in {region}" if region and advice["region_was_asked"] else ""
    failed, cause = f"could not {doing}{where}", str(error).rstrip(".")
    if isinstance(error, ClientError):
        message = str(error.response.get("Error", {}).get("Message", "")).strip()
        cause = f"{code}: {message or 'no message'}"
        if code in _DENIED_CODES:
            next_step = f"allow {error.operation_name} to the role or user you work with"
            return DeniedError(f"{failed}: {cause}", next_step=next_step)
    return AwsError(f"{failed}: {cause}", next_step=advice["next_step"])


def error_code(error: ClientError) -> str:
    """Return AWS's code for the error, such as `AccessDenied`; empty if it has none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def or_none(call: Callable[..., Any], *missing: str, **arguments: Any) -> Any:
    """Return the answer to a call to AWS, or None if the error code begins with one of `missing`.

    call: a method of a boto3 client, which gets `arguments`. Its other errors are raised.
    """
    try:
        return call(**arguments)
    except ClientError as error:
        if error_code(error).startswith(missing):
            return None
        raise


def listed(client: Any, operation: str, result: str, **arguments: Any) -> Iterator[Any]:
    """Yield the entries of a listing, from all its pages.

    operation: boto3's name of the listing, such as `list_objects_v2`. result: the JMESPath of the
        entries in one page, such as `Contents`. arguments: the arguments of the operation.
    """
    if client.can_paginate(operation):
        answers = client.get_paginator(operation).paginate(**arguments)
    else:
        answers = [getattr(client, operation)(**arguments)]
    for answer in answers:
        yield from jmespath.search(result, answer) or ()


def tags_of(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the tags in AWS's answer; the key that holds them differs from service to service."""
    tags: Any = next((answer[key] for key in ("Tags", "TagSet", "tags") if key in answer), {})
    return tags if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}


def tags_of_bucket(s3: Any, name: str) -> Mapping[str, str]:
    """Return a bucket's tags; empty if it has none or was deleted since it was listed."""
    return tags_of(or_none(s3.get_bucket_tagging, "NoSuch", Bucket=name) or {})


# The most objects that S3 deletes in one call.
_DELETE_BATCH = 1000


def delete_objects(s3: Any, bucket: str, objects: Sequence[Mapping[str, str]]) -> None:
    """Delete objects, each given as `Key` and perhaps `VersionId`, in batches.

    Raises DraftworthError if S3 does not delete one of them.
    """
    for start in range(0, len(objects), _DELETE_BATCH):
        batch = list(objects[start : start + _DELETE_BATCH])
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        if errors := answer.get("Errors"):
            first = errors[0]
            raise DraftworthError(
                f"s3://{bucket}/{first['Key']}: not deleted: {first['Code']}: {first['Message']}"
            )


# A function that makes a client of a service in a region: `client` above, or a test's own.
Clients = Callable[[str, str], Any]


@dataclass(frozen=True, kw_only=True)
class Region:
    """A region and its clients, each made once.

    answers_for_all: calls are about the whole account, so error messages do not name the region.
    """

    name: str
    clients: Clients
    answers_for_all: bool = False

    @cached_property
    def client(self) -> Callable[[str], Any]:
        return cache(lambda service: self.clients(service, self.name))

    def ask(self, doing: str, service: str, operation: str, *missing: str, **arguments: Any) -> Any:
        """Return AWS's answer, or None if AWS's error code begins with one of `missing`.

        operation: boto3's name of the call to `service`, which gets `arguments`. If it fails with
        another error, AwsError is raised, which says "could not `doing`".
        """
        with explained(doing, region=self._error_region):
            return or_none(getattr(self.client(service), operation), *missing, **arguments)

    def list_all(
        self, doing: str, service: str, operation: str, result: str, **arguments: Any
    ) -> list[Any]:
        with explained(doing, region=self._error_region):
            return [*listed(self.client(service), operation, result, **arguments)]

    @property
    def _error_region(self) -> str:
        return "" if self.answers_for_all else self.name
