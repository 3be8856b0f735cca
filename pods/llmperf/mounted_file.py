"""A mounted file that may be written again while this program runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from draftworth.errors import UserInputError

T = TypeVar("T")


def read_again(path: Path, read: Callable[[Path], T]) -> Callable[[], T]:
    """Reads the file at each call; one that cannot be read later is taken as it was before.

    Raises:
        UserInputError: it cannot be read now.
    """
    known = read(path)

    def again() -> T:
        nonlocal known
        with contextlib.suppress(UserInputError):
            known = read(path)
        return known

    return again
