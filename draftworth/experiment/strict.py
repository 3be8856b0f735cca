"""The base of every model that is read from a file, and how a data file of ours is read.

Strict (a string is not a number), frozen, and closed: an unknown key is an error, because a
misspelt key that is ignored runs another experiment than the one in the file.
"""

from __future__ import annotations

import json
from typing import TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

T = TypeVar("T")


class StrictModel(BaseModel):
    """Base of the experiment and catalogue models."""

    # A field without `description=` is described by the line below it.
    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


def read_yaml(kind: type[T], text: str) -> T:
    """The text of a data file, as pydantic reads it into that type from JSON.

    Raises:
        pydantic.ValidationError: it is not one.
    """
    return TypeAdapter(kind).validate_json(json.dumps(yaml.safe_load(text), default=str))
