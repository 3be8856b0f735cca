"""Another run beside a report's: what changed, or what a token costs elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from draftworth.analysis.metrics import COST
from draftworth.analysis.metrics import INTER_TOKEN_LATENCY as ITL
from draftworth.analysis.run_comparison import Across, Change
from draftworth.report.document import Section, table
from draftworth.report.words import (
    ABOUT,
    INTERVAL,
    change,
    change_interval,
    figure,
)


def against_section(changes: Sequence[Change], run: str, other: str) -> Section:
    """The same experiment in two runs."""
    headings = ("cost of a token", INTERVAL, "other's", INTERVAL, "this to other", INTERVAL)
    rows = (
        (
            c.label,
            *(change(c.cost_ratio), change_interval(c.cost_ratio)),
            *(change(c.other_cost_ratio), change_interval(c.other_cost_ratio)),
            *(change(c.ratio), change_interval(c.ratio)),
            figure(ITL, c.baseline_itl_s),
            figure(ITL, c.other_baseline_itl_s),
        )
        for c in changes
    )
    return Section(
        title="Against another run",
        paragraphs=(
            f"This run is {run}, the other one is {other}.",
            *(change_sentence(c) for c in changes),
            ABOUT["against"],
        ),
        tables=table(("group and variant", *headings, "baseline ITL ms", "other's"), rows, names=1),
        brief=True,
    )


def elsewhere_section(found: Sequence[Across], run: str, other: str) -> Section:
    """The same prompts on something else."""
    """Variants of this run beside those of a run of something else."""
    rows = (
        (
            *(a.group.prompt_class, a.group.load.label, a.variant, a.other_variant),
            *("cost" if a.is_cost else "seconds", change(a.ratio), change_interval(a.ratio)),
            *(figure(COST, usd) for usd in a.usd),
        )
        for a in found
    )
    headings = ("class", "load", "variant", "other's", "of a token", "this to other", INTERVAL)
    return Section(
        title="Against a run of something else",
        paragraphs=(f"This run is {run}, the other one is {other}.", ABOUT["elsewhere"]),
        tables=table((*headings, "USD/M tokens", "other's"), rows, names=5),
        brief=True,
    )


def change_sentence(change_: Change) -> str:
    """What two runs say about one variant."""
    words = {
        True: f"what speculation changes has changed, by {change_interval(change_.ratio)}",
        False: f"no difference is shown ({change_interval(change_.ratio)})",
        None: "there is no interval to compare by",
    }
    return f"{change_.label}: {words[change_.is_shown]}."
