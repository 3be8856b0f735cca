"""Checks options of `draftworth manifests`: some need `--winner`, others are wrong beside it."""

from draftworth.errors import UserInputError
from draftworth.untrusted import one_line


def option(name: str) -> str:
    """Return the option as a user types it, such as `--results-bucket` for `results_bucket`."""
    return f"--{name.replace('_', '-')}"


def refuse(beside: str, allowed: str, **options: str | None) -> None:
    """Raise UserInputError if one of the options is given (not None) where it has no effect.

    beside, allowed: words of the message: beside what the option has no effect, such as `--winner`,
        and where it is allowed.
    options: {option's name with underscores: value}.
    """
    for name, value in options.items():
        if value is not None:
            raise UserInputError(
                f"{option(name)}: given {one_line(value)} with {beside}, {allowed}"
            )
