"""Checks options of `draftworth manifests`: some need `--winner`, others are wrong beside it."""

from draftworth.errors import UserInputError
from draftworth.untrusted import one_line

DEFAULT_NAMESPACE = "default"


def option(name: str) -> str:
    """Return the option as a user types it, such as `--results-bucket` for `results_bucket`."""
    return f"--{name.replace('_', '-')}"


def refuse(beside: str, allowed: str, **options: str | None) -> None:
    """Raise UserInputError if one of the options is given (not None) where it has no effect.

    beside: words of the message that say with what the options have no effect, such as `--winner`.
    allowed: words of the message that say when they are allowed, such as `allowed: without it`.
    options: {option's name with underscores: value}.
    """
    for name, value in options.items():
        if value is not None:
            raise UserInputError(
                f"{option(name)}: given {one_line(value)} with {beside}, {allowed}"
            )
