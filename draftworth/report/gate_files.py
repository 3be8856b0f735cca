"""The files of `draftworth gate` for other programs: JUnit's XML, and a history in CSV.

JUnit's form is that of Jenkins' xUnit plugin, which CI services read. A history has a row for each
gate, in the form that Apache Otava's CSV importer reads (0.8: a column of times, and columns of
numbers); Otava finds slow changes over many runs, of which each alone keeps the margin.
"""

import csv
import io
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from draftworth.decision.upgrade_gate import Gate, GateRow, Word
from draftworth.report.gate_words import name_of, next_step, row_words

_TIME, _RUN, _WORD = "time", "run", "word"


def junit_of(gate: Gate, *, undecided_fails: bool) -> bytes:
    """Return the gate as JUnit's XML: a test case for each server and load.

    undecided_fails: whether an undecided test case counts as failed, or else as skipped.
    """
    words = [row.word for row in gate.rows]
    failing = {Word.NOT_HELD, Word.UNDECIDED} if undecided_fails else {Word.NOT_HELD}
    suite = ET.Element(
        "testsuite",
        name="draftworth gate",
        tests=str(len(words)),
        failures=str(sum(word in failing for word in words)),
        skipped=str(sum(word not in {*failing, Word.HELD} for word in words)),
        errors="0",
    )
    for row in gate.rows:
        _add_case(suite, gate, row, failing)
    document: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_case(suite: ET.Element, gate: Gate, row: GateRow, failing: set[Word]) -> None:
    case = ET.SubElement(suite, "testcase", classname="draftworth.gate", name=name_of(row))
    if row.word is Word.HELD:
        ET.SubElement(case, "system-out").text = row_words(row)
        return
    kind = "failure" if row.word in failing else "skipped"
    result = ET.SubElement(case, kind, message=f"{row.word}: {row_words(row)}")
    result.text = next_step(gate)


def history_with(gate: Gate, history: str) -> str:
    """Return a history in CSV with a row for this gate at its end.

    history: the history so far; empty: it begins with this gate. ValueError: it has other columns.
    """
    columns = [_TIME, _RUN, _WORD]
    measured_at = datetime.fromtimestamp(gate.after.result.started_at_unix_s, UTC)
    values = [measured_at.isoformat(timespec="seconds"), gate.after.result.run_id, gate.word.value]
    for row in gate.rows:
        columns.append(f"ms_per_token {name_of(row)}")
        seconds = row.change.seconds_per_token[1] if row.change else None
        values.append("" if seconds is None else f"{seconds * 1000:.6g}")
    first = next(csv.reader(io.StringIO(history)), None)
    if first not in (None, columns):
        raise ValueError(f"given the columns {first!r:.200}, allowed: {columns!r:.200}")
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    if first is None:
        writer.writerow(columns)
    writer.writerow(values)
    ends = "" if not history or history.endswith("\n") else "\n"
    return history + ends + lines.getvalue()
