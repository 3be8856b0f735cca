"""The variant that goes on serving when its run is over, and what was last seen of it."""

from __future__ import annotations

from datetime import UTC, datetime

from draftworth.records.live import KeptWinner, LiveProbe
from draftworth.report.document import Section, Table, table
from draftworth.report.words import number, share
from draftworth.untrusted import one_line

_FORM = "%Y-%m-%d %H:%M UTC"


def serving_sections(kept: KeptWinner | None, last: LiveProbe | None) -> tuple[Section, ...]:
    """A section, or nothing where nothing goes on serving. last: None: none is at hand."""
    if kept is None:
        return ()
    several = "s" if len(kept.servers) > 1 else ""
    names = ", ".join(map(one_line, kept.servers))
    stayed = f"{one_line(kept.variant)} stayed when the run was over, {_time(kept.since_unix_s)}"
    sentences = [f"{stayed}, on the server{several} {names}, until one of its limits is reached."]
    if kept.break_even_tokens_per_step is not None:
        sentences.append(
            f"With fewer than {kept.break_even_tokens_per_step:.2f} tokens a step, decoding "
            "without a draft would cost less."
        )
    if last:
        state = "it has DRIFTED from what was measured" if last.drifted else "no drift"
        sentences.append(f"Look {last.number}, {_time(last.ended_at_unix_s)}: {state}.")
    return (
        Section(
            title="The winner stays",
            paragraphs=tuple(sentences),
            tables=_looked_at(last) if last else (),
            brief=True,
        ),
    )


def _looked_at(probe: LiveProbe) -> tuple[Table, ...]:
    headings = ("source", "tokens a step", "of break-even", "acceptance")
    row = (
        probe.source,
        number(probe.tokens_per_step, digits=2),
        number(probe.margin, digits=2),
        share(probe.acceptance),
    )
    return table(headings, [row], names=1)


def _time(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):{_FORM}}"
