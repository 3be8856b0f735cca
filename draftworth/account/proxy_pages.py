"""Recognises HTTP answers that are not from AWS, such as a proxy's page or a network's log-in page.

On such a page, botocore raises exceptions of other libraries, or takes the page for an empty
answer: a listing would then say that nothing exists.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from xml.etree import ElementTree

from botocore.exceptions import BotoCoreError
from botocore.model import OperationModel

from draftworth.untrusted import one_line

_REQUEST_IDS = ("x-amz-request-id", "x-amzn-requestid")
_EXCERPT_BYTES = 60
# The XML root element of S3's answer, by operation. It is listed here because botocore's model of
# S3 does not name it. These are the operations in use whose answer may be empty, so that a proxy's
# page could pass for an empty answer.
_S3_ROOTS = {
    "DeleteObjects": "DeleteResult",
    "GetBucketTagging": "Tagging",
    "ListBuckets": "ListAllMyBucketsResult",
    "ListObjectVersions": "ListVersionsResult",
    "ListObjectsV2": "ListBucketResult",
}


class NoAnswerError(BotoCoreError):
    """The answer is not from the AWS service that was called."""

    fmt = "{what}"


def check_answers(client: Any) -> None:
    """Make the calls of a boto3 client raise an error if an answer is not from AWS.

    The error is NoAnswerError, or ClientError if the answer's HTTP status is 500 or more.
    """
    client.meta.events.register("before-parse", partial(_check, client.meta.endpoint_url))


def _check(
    url: str,
    *,
    operation_model: OperationModel,
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    **_: Any,
) -> None:
    if _is_of_aws(operation_model, response_dict):
        return
    status = response_dict["status_code"]
    what = f"{url} answered with {_excerpt(response_dict)}, which is no answer of the service"
    if status < 500:
        raise NoAnswerError(what=what)
    # botocore repeats a call after a status of 500 or more, but only if it can parse the answer. So
    # the page is replaced by an error in AWS's form.
    response_dict["body"] = b""
    customized_response_dict["Error"] = {"Code": str(status), "Message": what}


def _is_of_aws(operation: OperationModel, response: Mapping[str, Any]) -> bool:
    body, has_worked = response["body"], response["status_code"] < 300
    if operation.http["method"] == "HEAD" or (operation.has_streaming_output and has_worked):
        return any(name in response["headers"] for name in _REQUEST_IDS)
    if not body:
        return not (has_worked and _has_body(operation))
    protocol = operation.service_model.resolved_protocol
    if protocol in ("json", "rest-json"):
        return _is_object(body, _names_in_body(operation) if has_worked else frozenset())
    if protocol in ("query", "ec2", "rest-xml"):
        return _has_root_of_aws(operation, body, has_worked=has_worked)
    return True


def _has_body(operation: OperationModel) -> bool:
    """Return whether a successful answer to the operation has values in its HTTP body."""
    return bool(_names_in_body(operation))


def _names_in_body(operation: OperationModel) -> frozenset[str]:
    """Return the names of the values in the HTTP body of a successful answer to an operation."""
    members = operation.output_shape.members if operation.output_shape else {}
    return frozenset(
        member.serialization.get("name", name)
        for name, member in members.items()
        if "location" not in member.serialization
    )


def _is_object(body: bytes, names: frozenset[str]) -> bool:
    """Return whether the body is a JSON object that is empty or has one of these names as a key.

    Without `names`, any JSON object will do.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and (not content or not names or not names.isdisjoint(content))


def _has_root_of_aws(operation: OperationModel, body: bytes, *, has_worked: bool) -> bool:
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 (botocore reads it in the same way)
    except ElementTree.ParseError:
        return False
    name = _local_name(root)
    if not has_worked:
        return name.lower() != "html"
    wrapper = operation.output_shape and operation.output_shape.serialization.get("resultWrapper")
    if wrapper and wrapper not in map(_local_name, root):
        return False
    return name == _root_of_aws(operation, otherwise=name) and name.lower() != "html"


def _root_of_aws(operation: OperationModel, *, otherwise: str) -> str:
    """Return the name of the XML root element of an answer to the operation.

    otherwise: what is returned if the name is not known.
    """
    if operation.service_model.resolved_protocol == "rest-xml":
        return _S3_ROOTS.get(operation.name, otherwise)
    return f"{operation.name}Response"


def _local_name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _content_type(response: Mapping[str, Any]) -> str:
    return str(response["headers"].get("content-type", "")).lower()


def _excerpt(response: Mapping[str, Any]) -> str:
    body = response["body"]
    kind = one_line(_content_type(response), characters=_EXCERPT_BYTES) or "no content type"
    if not isinstance(body, bytes):
        return kind
    text = one_line(body[:_EXCERPT_BYTES].decode("utf-8", "replace"))
    return f"{kind}, {text!r}" if body else f"{kind} and nothing in it"
