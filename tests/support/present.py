"""A value that a test expects to be there."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return the value; fail where it is None."""
    assert value is not None
    return value
