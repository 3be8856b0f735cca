"""Names with a hash of the content, for objects that Kubernetes cannot change in place."""

import re
from collections.abc import Mapping
from typing import Any

from draftworth.experiment.naming import content_hash

CONTENT_HASH_LENGTH = 8
# The text of a CDK token has a number that changes when unrelated code changes.
_CDK_TOKEN = re.compile(r"\$\{Token\[[^\]]*\]\}")


def content_name(prefix: str, content: Any) -> str:
    """Return `PREFIX-HASH`, the name of an object that cannot be changed in place.

    HASH is of the object's `content`: with other content the name differs, so Kubernetes makes a
    new object. All CDK tokens in the content count as equal, because their numbers differ between
    syntheses.
    """
    return f"{prefix}-{stable_hash(content, length=CONTENT_HASH_LENGTH)}"


def stable_hash(content: Any, *, length: int) -> str:
    """Return `length` hex digits of a hash of plain data; all CDK tokens in it count as equal."""
    return content_hash(_masked(content), length=length)


def has_cdk_token(text: str) -> bool:
    """Return whether the text has a CDK token: a value that is known only at deployment."""
    return _CDK_TOKEN.search(text) is not None


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _CDK_TOKEN.sub("<token>", value)
    if isinstance(value, Mapping):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    return value
