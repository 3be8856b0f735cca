"""Another run beside a report's: what changed, or what a token costs elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftworth.analysis.run_comparison import Change, Elsewhere
from draftworth.analysis.statistics import Estimate
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY as ITL
from draftworth.records.reading import Run
from draftworth.report.document import Section, table
from draftworth.report.words import (
    ABOUT,
    INTERVAL,
    MISSING,
    change,
    change_interval,
    dollars,
    figure,
    price_words,
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


def elsewhere_section(found: Elsewhere) -> Section:
    """The same prompts on something else."""
    runs = (found.run, found.other)
    rows = (
        (
            *(a.traffic.name, a.traffic.load.label, a.variant, a.other_variant),
            *("cost" if a.is_cost else "seconds", change(a.ratio), change_interval(a.ratio)),
            *(cell for usd in a.usd for cell in _usd_cells(usd)),
        )
        for a in found.rows
    )
    headings = ("class", "load", "variant", "other's", "of a token", "this to other", INTERVAL)
    usd = ("USD/M tokens", INTERVAL, "other's USD/M tokens", INTERVAL)
    names = (f"{run.result.run_id} ({_models(run)})" for run in runs)
    return Section(
        title="Against a run of something else",
        paragraphs=(
            "This run is {}, the other one is {}.".format(*names),
            *(f"Not alike: {sentence}." for sentence in found.unlike),
            f"Prices: {'; '.join(_prices(runs))}.",
            ABOUT["elsewhere"],
        ),
        tables=table((*headings, *usd), rows, names=5),
        brief=True,
    )


def _usd_cells(usd: Estimate | None) -> tuple[str, str]:
    if usd is None:
        return MISSING, MISSING
    if usd.low is None or usd.high is None:
        return dollars(usd.value), MISSING
    return dollars(usd.value), f"{dollars(usd.low)} to {dollars(usd.high)}"


def _models(run: Run) -> str:
    return f"model {', '.join(dict.fromkeys(b.model for b in run.blocks)) or MISSING}"


def _prices(runs: tuple[Run, Run]) -> Iterator[str]:
    """Where each column's comes from."""
    for name, run in zip(("this run", "the other"), runs, strict=True):
        price = run.result.price
        if price is None:
            yield f"{name}, none is known"
            continue
        parts = (f"{n} {share:g}" for n, share in price.node_shares.items() if share != 1)
        shares = ", ".join(parts)
        yield f"{name}, {price_words(price)}" + (f", of a node: {shares}" if shares else "")


def change_sentence(change_: Change) -> str:
    """What two runs say about one variant."""
    words = {
        True: f"what speculation changes has changed, by {change_interval(change_.ratio)}",
        False: f"no difference is shown ({change_interval(change_.ratio)})",
        None: "there is no interval to compare by",
    }
    return f"{change_.label}: {words[change_.is_shown]}."
