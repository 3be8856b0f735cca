"""The answer of `draftworth gate` in words: for a terminal, and as Markdown for a pull request."""

from collections.abc import Iterator

from draftworth.decision.upgrade_gate import CONFIDENCE, Gate, GateRow, Word
from draftworth.errors import counted
from draftworth.report.percent import changes, signed_percent
from draftworth.report.reason_sentences import not_comparable_words

_INTERVAL = f"both bounds of an interval are one-sided {(1 + CONFIDENCE) / 2:.0%} confidence limits"


def gate_lines(gate: Gate) -> Iterator[str]:
    """Yield the decision, a line for each server and load, and what would decide an open one."""
    yield f"Decision: {gate.word}. {decision_words(gate)}."
    for row in gate.rows:
        yield f"{name_of(row)}: {row_words(row)}"
    yield f"Baseline: {gate.before.result.run_id}"
    yield f"Candidate: {gate.after.result.run_id}"
    if step := next_step(gate):
        yield f"Next: {step}"


def markdown_of(gate: Gate) -> str:
    """Return the answer as Markdown, with a table of all servers and loads."""
    lines = [
        f"### draftworth gate: {gate.word}",
        "",
        f"{decision_words(gate)}.",
        "",
        "| server and load | cost of a token | |",
        "|---|---|---|",
        *(f"| {name_of(row)} | {row_words(row)} | {row.word} |" for row in gate.rows),
        "",
        (
            f"Baseline: {gate.before.result.run_id}; candidate: {gate.after.result.run_id}; "
            f"{_INTERVAL}."
        ),
    ]
    if step := next_step(gate):
        lines += ["", f"Next: {step}"]
    return "\n".join(lines) + "\n"


def name_of(row: GateRow) -> str:
    """Return a name for a server at a load, unlike those of the gate's other rows."""
    return f"{row.variant} at {row.traffic.load.label}"


def decision_words(gate: Gate) -> str:
    """Say whether the margin is kept, as a clause without a full stop."""
    margin = f"{gate.rows[0].margin:.2%}".replace(".00%", "%")
    match gate.word:
        case Word.HELD:
            return f"A token is shown to cost at most {margin} more"
        case Word.NOT_HELD if all(row.failed for row in gate.rows if row.word is Word.NOT_HELD):
            return "Requests to the candidate fail"
        case Word.NOT_HELD:
            return f"A token is shown to cost more than {margin} more"
        case Word.UNDECIDED:
            return f"These runs show neither that a token costs at most {margin} more, nor that not"


def row_words(row: GateRow) -> str:
    """Say how a server's cost of a token has changed, as a clause without a full stop."""
    if row.failed:
        return not_comparable_words(row.failed)
    if row.ratio is None or row.change is None:
        return "tokens are not counted"
    change = signed_percent(row.ratio - 1)
    if row.interval is None:
        return f"{change}, without an interval"
    before, after = row.change.starts
    return (
        f"{change} ({changes(row.interval)}), {counted(before, 'start')} before the change, "
        f"{after} after it"
    )


def next_step(gate: Gate) -> str:
    """Say what would decide an open gate; empty if it is decided."""
    open_rows = [row for row in gate.rows if row.word is Word.UNDECIDED]
    if gate.word is not Word.UNDECIDED:
        return ""
    if missing := max(row.lacks_starts for row in open_rows):
        return (
            "one start of a server may differ from the next by more than the margin: add "
            f"{counted(missing, 'more run')} of the baseline, each after a restart (--baseline RUN "
            "may be repeated)"
        )
    if any(row.is_wide_by_starts for row in open_rows):
        return (
            "starts of these servers differ by more than the margin allows: add runs of either "
            "side, each after a restart (--baseline and --candidate may be repeated)"
        )
    return "measure both sides with more --rounds or prompts"
