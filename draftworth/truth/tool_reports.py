"""Reads the figures that a load generator reports, from its own files or from JSON lines.

A form is the format of one tool's report: it says where each figure stands. `tool_reports.toml` has
the known forms; docs/conformance.md says what other tools have to print.
"""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import RecordError, load_value
from draftworth.untrusted import MIB, one_line, read_file

_LIMIT_BYTES = 256 * MIB
FIGURES = ("ttft_ms", "itl_ms", "e2e_ms", "output_tokens")
FORMS: Mapping[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
# What is raised if a file has another format than the one that is tried. DraftworthError: the file
# is too large, or not JSON.
_WRONG_FORM = (ArithmeticError, AttributeError, DraftworthError, LookupError, TypeError, ValueError)
# The figures of one request by name, in milliseconds or tokens; those that the tool does not report
# are left out.
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The medians of one tool's result file.

    form: the file's form, a key of `FORMS`. figures: the median of each figure (`FIGURES`).
    completed: the number of requests in the medians. sent: how many requests the tool sent.
    loads: how many loads (such as concurrencies) the file has; only the first one is read.
    in_flight: the concurrency of the first load; None: it is not in the file.
    """

    form: str
    figures: Mapping[str, float]
    completed: int
    sent: int
    loads: int = 1
    in_flight: int | None = None


def recognized(path: Path) -> Report:
    """Read a load generator's result file in any known format; UserInputError: no format fits."""
    with suppress(OSError, *_WRONG_FORM):
        document = _document(path)
        for form in FORMS:
            with suppress(*_WRONG_FORM):
                if (report := _report(form, document)).figures and report.completed:
                    return report
    raise UserInputError(
        f"--against: {one_line(str(path))}: given no figures of requests, allowed: a run, or a "
        f"file ({_LIMIT_BYTES // MIB} MiB) of the form {', '.join(FORMS)}; next: docs/elsewhere.md"
    )


def read(form: str, folder: Path) -> list[Row]:
    """Return the figures of each request from a tool's report in `folder`.

    form: the report's format, a key of `FORMS`. DraftworthError: there is not exactly one report,
    or it cannot be read.
    """
    try:
        return _rows(form, _document(_only_file(folder, FORMS[form]["file"])))
    except (OSError, *_WRONG_FORM) as error:
        what = one_line(f"{type(error).__name__}: {error}")
        raise DraftworthError(f"its report of the form {form} cannot be read: {what}") from error


def _only_file(folder: Path, pattern: str) -> Path:
    files = sorted(folder.rglob(pattern))
    if len(files) != 1:
        raise LookupError(f"{len(files)} files {pattern} in {{folder}}, allowed: one")
    return files[0]


def _document(path: Path) -> Any:
    """Return a file's JSON value or, if it has a JSON object on each line, the list of them."""
    text = read_file(path, _LIMIT_BYTES).decode()
    with suppress(RecordError):
        return load_value(text)
    return [load_value(line) for line in text.split("\n") if line.startswith("{")]


def _report(form: str, document: Any) -> Report:
    rows = [row for row in _rows(form, document) if row.get("phase", "profiling") == "profiling"]
    done = [row for row in rows if row.keys() & {*FIGURES} and not row.get("error")]
    measured = [row for row in done if row.get("output_tokens") != 0]
    values_by_figure = {name: [row[name] for row in measured if name in row] for name in FIGURES}
    figures = {
        name: float(statistics.median(values))
        for name, values in values_by_figure.items()
        if values
    }
    whole = {"completed": len(measured), "sent": len(rows)}
    for name, path in FORMS[form].get("whole", {}).items():
        if (whole_value := _at(document, path)) is not None:
            whole[name] = len(whole_value) if isinstance(whole_value, list) else int(whole_value)
    whole["sent"] = max(whole["sent"], whole["completed"])
    return Report(form=form, figures=figures, **whole)


def _rows(form: str, document: Any) -> list[Row]:
    paths = FORMS[form]["request"]
    requests = _at(document, FORMS[form].get("rows", ""))
    return [_row(request, paths) for request in _requests(requests, [*paths.values()])]


def _requests(requests: Any, names: Sequence[str]) -> Sequence[Any]:
    if isinstance(requests, list):
        return requests
    if not isinstance(requests.get(names[0]), list):
        return [requests]
    columns = (requests[name] for name in names)
    return [dict(zip(names, items, strict=True)) for items in zip(*columns, strict=True)]


def _at(value: Any, path: str) -> Any:
    """Return the item of a JSON value at a path such as `metrics.0.value`.

    If an object lacks a key of the path, None is returned; if a list is too short for an index of
    the path, IndexError is raised.
    """
    for key in path.split(".") if path else ():
        value = value[int(key)] if isinstance(value, list) else (value or {}).get(key)
    return value


def _row(request: Any, paths: Mapping[str, str]) -> Row:
    row: dict[str, Any] = {}
    for name, path in paths.items():
        if (value := _at(request, path)) is not None:
            value = sum(value) if name == "after_first_s" else value
            in_seconds = name.endswith("_s")
            row |= {f"{name[:-2]}_ms": value * 1e3} if in_seconds else {name: value}
    if (after_first := row.pop("after_first_ms", None)) is not None:
        row["e2e_ms"] = row["ttft_ms"] + after_first
        if row["output_tokens"] > 1:
            row["itl_ms"] = after_first / (row["output_tokens"] - 1)
    return row
