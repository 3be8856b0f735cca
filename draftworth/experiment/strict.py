"""The base class of all models that are read from files, and patterns of their text and numbers.

The class is strict (a string is not a number), frozen and closed: an unknown key is an error. If a
misspelt key were ignored, another experiment would run than the file describes.
"""

import json
from collections import Counter
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import PydanticCustomError

# A DNS subdomain (RFC 1123) of letters, digits, hyphens and dots; where a DNS label is required,
# `naming.dns_label` turns the dots into hyphens. The length leaves room for prefixes and content
# hashes within a label's 63 characters.
NAME_PATTERN = r"^[a-z]([a-z0-9.-]*[a-z0-9])?$"
MAX_NAME_LENGTH = 32
# Names of prompt classes and cases are used in file paths, metric dimensions and object keys.
SET_NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]*$"
# The hub's rule (no `..` and no `--`, a letter or digit at both ends), and also no `.-` or `-.`.
_HUB_NAME = r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*"
HUB_ID_PATTERN = rf"^{_HUB_NAME}/{_HUB_NAME}$"
MAX_HUB_ID_LENGTH = 140
# A git branch, tag or commit without a slash, because a revision names a folder in the bucket.
REVISION_PATTERN = r"^[A-Za-z0-9_]([A-Za-z0-9_-]|\.[A-Za-z0-9_-])*$"
MAX_REVISION_LENGTH = 200
RESERVATION_PATTERN = r"^cr-[0-9a-f]{17}$"
# Ids for examples, here and in experiments/; they belong to no real account.
EXAMPLE_RESERVATION = "cr-0123456789abcdef0"
EXAMPLE_ACCOUNT = "111122223333"
NODE_RELEASE_PATTERN = r"^1\.[0-9]{2}\.[0-9]{1,3}-20[0-9]{6}$"
ADD_ON_VERSION_PATTERN = r"^v[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}-eksbuild\.[0-9]{1,3}$"
ADMIN_ARN_PATTERN = r"^arn:aws[a-z-]{0,20}:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]{1,512}$"
# Each name ends with a direction and a digit; new regions keep to that.
REGION_PATTERN = (
    r"^[a-z]{2}(-[a-z]{1,16}){0,2}-(north|south|central|(north|south)?(east|west))-[0-9]$"
)
EMAIL_PATTERN = r"^[^@\s]{1,64}@[^@\s]{1,200}\.[^@\s]{1,60}$"
WINDOWS_PATTERN = r"^[0-9]{1,3}\.\.[0-9]{1,3}$"
SECRET_NAME_PATTERN = r"^[A-Za-z0-9/_+=.@-]+$"  # noqa: S105 (a pattern of names)

# The text that each pattern allows, in words, for messages.
PATTERN_WORDS = {
    NAME_PATTERN: "lower-case letters, digits, hyphens and dots, a letter first, no hyphen or dot "
    "last",
    SET_NAME_PATTERN: "lower-case letters, digits, hyphens, underscores; a letter or digit first",
    HUB_ID_PATTERN: "OWNER/NAME, as in Qwen/Qwen3-32B",
    REVISION_PATTERN: "a branch, tag or commit as git names them, without a slash: letters, "
    "digits, hyphens, underscores and single dots, no hyphen or dot first, no dot last",
    RESERVATION_PATTERN: f"cr- and 17 hex digits, as in {EXAMPLE_RESERVATION}",
    NODE_RELEASE_PATTERN: "a release of EKS's node images, as in 1.35.2-20261102",
    ADD_ON_VERSION_PATTERN: "an add-on's version, as in v1.21.1-eksbuild.3",
    ADMIN_ARN_PATTERN: f"an IAM role or user ARN, as in arn:aws:iam::{EXAMPLE_ACCOUNT}:role/Admin",
    REGION_PATTERN: "a region such as us-east-2: its direction is a word such as east or southeast",
    EMAIL_PATTERN: "an e-mail address",
    WINDOWS_PATTERN: "FIRST..LAST, as in 3..15",
    SECRET_NAME_PATTERN: "a secret's name: letters, digits and /_+=.@-",
}


def _each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise PydanticCustomError("repeated", "{twice}", {"twice": ", ".join(map(str, twice))})
    return values


# Larger numbers are typing errors: the longest context of a model is this many tokens.
PositiveInt = Annotated[int, Field(ge=1, le=10_000_000)]
# For prices, rates and weights: with these bounds products and ratios of any two are finite.
PositiveFloat = Annotated[float, Field(ge=0.001, le=1e12)]
# For a number that a file may leave out: defaults.py replaces the 0. A schema shows no default.
WORKED_OUT: Any = Field(default_factory=int)
# For a list in which a repeated entry is an error.
EachOnce = AfterValidator(_each_once)
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)]


T = TypeVar("T")


class StrictModel(BaseModel):
    """Base of the experiment and catalogue models."""

    # A field without `description=` is described by the string below it.
    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


def read_yaml(kind: type[T], text: str) -> T:
    """Convert a data file's YAML text to `kind`; raise pydantic.ValidationError if it is wrong."""
    return TypeAdapter(kind).validate_json(json.dumps(yaml.safe_load(text), default=str))
