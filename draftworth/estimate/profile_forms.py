"""Reads and writes acceptance profiles."""

from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.records.acceptance import LIMIT_BYTES, AcceptanceProfile, load_profile
from draftworth.records.codec import RecordError, dump_record
from draftworth.untrusted import TooLargeError, one_line, read_file


def read_profile(path: Path) -> AcceptanceProfile:
    """Read a profile; raise UserInputError for another file."""
    shown = one_line(str(path))
    try:
        return load_profile(read_file(path, LIMIT_BYTES))
    except OSError as error:
        raise UserInputError(f"{shown}: cannot be read: {error.strerror}") from error
    except (RecordError, TooLargeError) as error:
        raise UserInputError(f"{shown}: {error}") from error


def write_profile(profile: AcceptanceProfile, path: Path) -> None:
    """Write a profile; raise UserInputError if the file cannot be written."""
    try:
        path.write_bytes(dump_record(profile, indent=1))
    except OSError as error:
        raise UserInputError(
            f"--profile: {one_line(str(path))}: cannot be written: {error.strerror}; next: give "
            "another file"
        ) from error
