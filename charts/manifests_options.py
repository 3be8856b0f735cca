"""Checks of options that `draftworth manifests` has with `--winner` and without it."""

from draftworth.errors import UserInputError
from draftworth.untrusted import one_line


def option(name: str) -> str:
    """Return the option as a user types it, such as `--results-bucket` for `results_bucket`."""
    return f"--{name.replace('_', '-')}"


def refuse(beside: str, allowed: str, **options: str | None) -> None:
    """Raise UserInputError if one of the options is given (not None) where it has no effect.

    beside: words for the case in which it has no effect. allowed: words for where it is allowed.
    """
    for name, value in options.items():
        if value is not None:
            raise UserInputError(
                f"{option(name)}: given {one_line(value)} with {beside}, {allowed}"
            )
