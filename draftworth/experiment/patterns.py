"""What text and numbers of an experiment file may look like, and the words that say so."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

# A DNS subdomain (RFC 1123) of letters, digits, hyphens and dots; where a label is wanted,
# `naming.dns_label` turns the dots into hyphens. The length leaves room for prefixes and content
# hashes within a label's 63 characters.
NAME_PATTERN = r"^[a-z]([a-z0-9.-]*[a-z0-9])?$"
MAX_NAME_LENGTH = 32
# Prompt classes and cases are folders and files, metric dimensions and parts of object keys.
SET_NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]*$"
HUB_ID_PATTERN = r"^[A-Za-z0-9][\w.-]*/[\w.-]+$"
REVISION_PATTERN = r"^[\w.-]+$"
RESERVATION_PATTERN = r"^cr-[0-9a-f]{17}$"
REGION_PATTERN = r"^[a-z]{2}(-[a-z]+)+-\d$"
EMAIL_PATTERN = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"
SECRET_NAME_PATTERN = r"^[A-Za-z0-9/_+=.@-]+$"  # noqa: S105 (what a NAME may look like)

# What a pattern allows, in words, for messages.
PATTERN_WORDS = {
    NAME_PATTERN: "lower-case letters, digits, hyphens and dots, a letter first, no hyphen or dot "
    "last",
    SET_NAME_PATTERN: "lower-case letters, digits, hyphens, underscores; a letter or digit first",
    HUB_ID_PATTERN: "OWNER/NAME, as in Qwen/Qwen3-32B",
    REVISION_PATTERN: "a branch, tag or commit: letters, digits, dots, hyphens and underscores",
    RESERVATION_PATTERN: "cr- and 17 hex digits, as in cr-0123456789abcdef0",
    REGION_PATTERN: "a region such as us-east-2",
    EMAIL_PATTERN: "an e-mail address",
    SECRET_NAME_PATTERN: "a secret's name: letters, digits and /_+=.@-",
}

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)]
