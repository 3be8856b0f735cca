"""Where a run's time and money went, and what interrupted it, for every form of the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from draftworth.analysis.costs import RunCosts, run_costs
from draftworth.records.results import Interruption, RunResult
from draftworth.report.words import MISSING, number, share

ABOUT_COSTS = (
    "The cost of a million tokens elsewhere in this report is that of serving alone: waiting, "
    "interruptions and idle time are not in it. Nor are, here or there, the minutes that nodes are "
    "up before the run's first pod and after its end; `draftworth plan` estimates those."
)
SPENDING_HEADINGS = ("the run's time went into", "minutes", "share", "USD")
INTERRUPTION_HEADINGS = ("interrupted", "what was lost", "blocks", "why", "minutes lost")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the run's time; `usd` is None for a run that rented nothing."""

    name: str
    key: str
    seconds: float
    usd: float | None


def parts(run: RunResult) -> tuple[Part, ...]:
    """The parts of a run's time, which together are all of it."""
    costs, time = run_costs(run), run.time
    names = {
        "measuring": ("measuring (with warm-ups)", time.measuring_s),
        "waiting": ("waiting for servers (image pull, load, compile)", time.waiting_s),
        "lost": ("lost to interruptions", time.lost_s),
        "idle": ("idle between blocks", time.idle_s),
    }
    return tuple(
        Part(name=name, key=key, seconds=seconds, usd=_usd(costs, key))
        for key, (name, seconds) in names.items()
    )


def _usd(costs: RunCosts | None, key: str) -> float | None:
    return None if costs is None else float(getattr(costs, f"{key}_usd"))


def spending_sentences(run: RunResult) -> Iterator[str]:
    """One on the time, one on the money where there is a price, one on interruptions if any."""
    told = ", ".join(f"{part.seconds / 60:.1f} {part.name}" for part in parts(run))
    total_s = sum(part.seconds for part in parts(run))
    yield f"The run took {total_s / 60:.1f} min: {told}."
    if costs := run_costs(run):
        paid = ", ".join(f"{part.usd or 0:.2f} {part.name}" for part in parts(run))
        nodes = f"{costs.nodes} node{'s' if costs.nodes != 1 else ''}"
        yield (
            f"On {nodes} at {costs.usd_per_node_hour:.2f} USD an hour that is "
            f"{costs.total_usd:.2f} USD: {paid}. USD per million tokens are of serving alone, "
            "without the last three."
        )
    if run.interruptions:
        yield f"Interrupted {interruption_count(run)}; nothing of what was lost is in any figure."


def interruption_count(run: RunResult) -> str:
    """`3 times (servers 2, load generator 1)`, or `none`."""
    kinds = [interruption.kind for interruption in run.interruptions]
    if not kinds:
        return "none"
    times = "once" if len(kinds) == 1 else f"{len(kinds)} times"
    return f"{times} ({', '.join(f'{k} {kinds.count(k)}' for k in dict.fromkeys(kinds))})"


def spending_rows(run: RunResult) -> tuple[tuple[str, ...], ...]:
    """Cells under `SPENDING_HEADINGS`, the sum last."""
    told = parts(run)
    total_s = sum(part.seconds for part in told)
    costs = run_costs(run)
    return (
        *(
            (
                part.name,
                number(part.seconds / 60),
                share(part.seconds / total_s if total_s else None),
                number(part.usd, digits=2),
            )
            for part in told
        ),
        (
            "together",
            number(total_s / 60),
            share(1.0 if total_s else None),
            number(costs.total_usd if costs else None, digits=2),
        ),
    )


def interruption_rows(run: RunResult) -> tuple[tuple[str, ...], ...]:
    """Cells under `INTERRUPTION_HEADINGS`, in the order of time."""
    return tuple(_interruption_row(interruption) for interruption in run.interruptions)


def _interruption_row(interruption: Interruption) -> tuple[str, ...]:
    moment = datetime.fromtimestamp(interruption.at_unix_s, UTC)
    return (
        f"{moment:%Y-%m-%d %H:%M:%S} UTC",
        interruption.kind,
        ", ".join(interruption.blocks) or MISSING,
        interruption.reason,
        number(interruption.lost_s / 60),
    )
