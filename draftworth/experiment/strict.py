"""The base of every model that is read from a file.

Strict (a string is not a number), frozen, and closed: an unknown key is an error, because a
misspelt key that is ignored runs another experiment than the one in the file.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """Base of the experiment and catalogue models."""

    # A field without `description=` is described by the line below it.
    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", use_attribute_docstrings=True
    )
