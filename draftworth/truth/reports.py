"""Reads what a load generator says of each request, from its own files or from JSON lines.

`reports.toml` has the forms that are known, docs/fidelity.md the contract for other tools.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.untrusted import MIB, TooLargeError, one_line, read_file

_LIMIT_BYTES = 256 * MIB
FORMS: Mapping[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_WRONG_FORM = (AttributeError, LookupError, TypeError, ValueError)
# By figure, in milliseconds or tokens; a figure that the tool does not give is missing.
Row = Mapping[str, Any]


def read(form: str, folder: Path) -> list[Row]:
    """Read a report of a form in a folder; raise DraftworthError."""
    paths = dict(FORMS[form])
    try:
        found = _requests(_text(folder, paths.pop("file")), paths.pop("rows", None), paths)
        return [_row(request, paths) for request in found]
    except (OSError, TooLargeError, *_WRONG_FORM) as error:
        what = one_line(f"{type(error).__name__}: {error}")
        raise DraftworthError(f"its report of the form {form} cannot be read: {what}") from error


def _text(folder: Path, pattern: str) -> str:
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        raise LookupError(f"{len(found)} files {pattern} in {{folder}}, allowed: one")
    return read_file(found[0], _LIMIT_BYTES).decode()


def _requests(text: str, rows: str | None, paths: Mapping[str, str]) -> Iterator[Any]:
    if rows is None:
        yield from (json.loads(line) for line in text.splitlines() if line.startswith("{"))
        return
    found = _at(json.loads(text), rows)
    if isinstance(found, list):
        yield from found
    else:  # lists by name, one item a request
        names = list(paths.values())
        for items in zip(*(found[name] for name in names), strict=True):
            yield dict(zip(names, items, strict=True))


def _at(value: Any, path: str) -> Any:
    """Follow a path; None where a key of it is missing."""
    for key in path.split(".") if path else ():
        value = value[int(key)] if isinstance(value, list) else (value or {}).get(key)
    return value


def _row(request: Any, paths: Mapping[str, str]) -> Row:
    row: dict[str, Any] = {}
    for name, path in paths.items():
        if (value := _at(request, path)) is not None:
            in_seconds = name.endswith("_s")
            row[name.replace("_s", "_ms") if in_seconds else name] = (
                value * 1e3 if in_seconds else value
            )
    if "itl_s" not in paths and "itl_ms" not in paths and row["output_tokens"] > 1:
        row["itl_ms"] = (row["e2e_ms"] - row["ttft_ms"]) / (row["output_tokens"] - 1)
    return row
