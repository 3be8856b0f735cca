"""Figures and verdicts as text, the same in the terminal, in Markdown, in HTML and in plots."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from draftworth.analysis import statistics
from draftworth.metrics.definitions import Metric
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import cell_of_label, words_of_label
from draftworth.records.results import RunResult
from draftworth.records.search_result import CostInterval
from draftworth.report.percent import (
    HALF_OR_TWICE,
    changes,
    direction,
    outwards,
    says_nothing,
    signed_percent,
    spoken_changes,
)


class Code(str):
    """A command or a formula, which files show as code and a terminal shows as it is."""

    __slots__ = ()


class Prose(str):
    """A text of this project, in which backticks enclose code."""

    __slots__ = ()


MISSING = "-"
INTERVAL = f"{statistics.CONFIDENCE:.0%} interval"
# The explanations in the report, by subject.
ABOUT: Mapping[str, Prose] = {
    subject: Prose(words)
    for subject, words in tomllib.loads(
        Path(__file__).with_name("about.toml").read_text(encoding="utf-8")
    ).items()
}


# The headline's first words, by judgement.
ANSWERS: Mapping[Judgement, str] = {
    Judgement.CHEAPER: "Speculation pays",
    Judgement.WITHIN_LIMITS: "Speculation keeps the limits",
    Judgement.INCONCLUSIVE: "No answer yet",
    Judgement.NO_DIFFERENCE: "Speculation makes no difference",
    Judgement.MORE_EXPENSIVE: "Speculation does not pay",
    Judgement.OUTSIDE_LIMITS: "Speculation does not keep the limits",
}
# What the answer for a terminal says after a cost; for other judgements, the judgement itself. If
# the verdict holds for a few repetitions only, `{where}` names them.
_PROOF: Mapping[Judgement, str] = {
    Judgement.CHEAPER: "proven{where}",
    Judgement.MORE_EXPENSIVE: "proven{where}",
    Judgement.INCONCLUSIVE: "not proven",
}
# The words for a verdict that follow a variant's name in a plot's title.
FINDINGS: Mapping[Judgement, str] = {
    Judgement.CHEAPER: " is cheaper per token",
    Judgement.MORE_EXPENSIVE: " is more expensive per token",
    Judgement.NO_DIFFERENCE: " changes nothing",
    Judgement.WITHIN_LIMITS: " keeps the limits",
    Judgement.OUTSIDE_LIMITS: " is outside the limits",
    Judgement.INCONCLUSIVE: ": inconclusive",
}


def proof(
    judgement: Judgement, *, clears_floor: bool | None, repetitions: int | None = None
) -> str:
    """Return in words whether the verdict on a variant's cost of a token is proven.

    clears_floor: whether the variant's cost differs from the baseline's by more than the costs of
        two servers without speculation do (the noise floor); None: that was not measured.
    repetitions: the number of repetitions that the verdict holds for; None: for further ones too.
    """
    if clears_floor is False:
        return "not proven"
    where = f" in {repetitions} repetitions" if repetitions and repetitions > 1 else ""
    return _PROOF.get(judgement, judgement).format(where=where)


def price_words(run: RunResult) -> str:
    """Return a run's price as `8.60 USD per node hour (Spot price history, 2026-03-15)`.

    If the servers are the user's own, a price is listed for each of them.
    """
    price = run.price
    if price is None:
        return "none is known"
    amount = f"{dollars(price.usd_per_node_hour)} USD per node hour"
    if run.of_own_servers and len(price.node_shares) > 1:
        usd_per_hour = {n: s * price.usd_per_node_hour for n, s in price.node_shares.items()}
        each = ", ".join(f"{name} {dollars(usd)}" for name, usd in usd_per_hour.items())
        amount = f"{each} USD per hour"
    return f"{amount} ({price.source}, {price.as_of})"


def dollars(amount: float) -> str:
    """Return an amount as `8.60`, or below 1 USD with four decimals, as `0.0860`."""
    return f"{amount:.{2 if amount >= 1 else 4}f}"


def yes_or_no(answer: bool | None, *, no: str = "no", unknown: str = MISSING) -> str:  # noqa: FBT001
    """Return `yes` if the answer is True, the text `no` if False, the text `unknown` if None."""
    return unknown if answer is None else "yes" if answer else no


def number(value: float | None, *, digits: int = 1) -> str:
    """Return a number, or `-` if it was not measured."""
    return MISSING if value is None else f"{value:.{digits}f}"


def share(value: float | None) -> str:
    """Return a share (0 to 1) in per cent, or `-` if it was not measured."""
    return MISSING if value is None else f"{value:.1%}"


def figure(metric: Metric, value: float | None) -> str:
    """Return a value, scaled and rounded as its metric requires; the only unit shown is `%`."""
    text = number(None if value is None else value * metric.unit.scale, digits=metric.digits)
    return f"{text}%" if metric.unit.name == "%" and value is not None else text


def ratio(value: float | None) -> str:
    """Return a ratio as `1.53x`, or `-` if it was not measured."""
    return MISSING if value is None else f"{value:.2f}x"


def interval(estimate: statistics.Estimate | None, *, scale: float = 1.0, digits: int = 2) -> str:
    """Return the ends of an interval, times `scale`, as `1.40 to 1.61`; `-` without an interval."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return MISSING
    return f"{estimate.low * scale:.{digits}f} to {estimate.high * scale:.{digits}f}"


def change(ratio: statistics.Estimate | CostInterval | None) -> str:
    """Return a ratio as a change in per cent, such as `-38.2%` for 0.618; `-` without a ratio."""
    return MISSING if ratio is None else signed_percent(ratio.value - 1)


def change_interval(ratio: statistics.Estimate | CostInterval | None) -> str:
    """Return the ends of a ratio's interval as `-41.0% to -35.1%`; `-` without an interval."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return MISSING
    if says_nothing(ratio.low, ratio.high):
        return HALF_OR_TWICE
    return changes((ratio.low, ratio.high))


def loads_in_words(labels: Sequence[str]) -> str:
    """Return loads in words by their labels: `c1`, `c4` as `1 and 4 requests at a time`.

    Loads that differ in more than a number stand one after the other.
    """
    if len(labels) == 1:
        return words_of_label(labels[0])
    cells = [cell_of_label(label) for label in labels]
    (count, _, way), *further = (cell.partition(" ") for cell in cells)
    if not way or any(other_way != way for *_, other_way in further):
        return "; ".join(cells)
    counts = [count, *(number for number, *_ in further)]
    return f"{', '.join(counts[:-1])} and {counts[-1]} requests {way}"


def cost_phrase(ratio: float, low: float | None, high: float | None) -> str:
    """Return a cost ratio as `costs 47% more per token (40 to 55)`.

    The interval is rounded outwards, so it never promises more than what was measured. An interval
    in which half the cost and twice the cost lie gets no figures, which nobody could use.
    """
    value = round(abs(ratio - 1) * 100)
    phrase = f"costs {value}% {direction(ratio)} per token" if value else "costs the same per token"
    if low is None or high is None:
        return f"{phrase} (no interval)"
    if says_nothing(low, high):
        return f"may cost {HALF_OR_TWICE} per token: nothing is known yet"
    if value and direction(low) == direction(high):
        near, far = outwards((low, high))
        return f"{phrase} ({near} to {far})"
    return f"{phrase} ({spoken_changes((low, high))})"


def change_cells(ratio: statistics.Estimate | CostInterval | None) -> tuple[str, str]:
    """Return two table cells for a ratio and its interval: `-38.2%` and `-41.0% to -35.1%`."""
    return change(ratio), change_interval(ratio)


def with_ends(value: str, ends: str) -> str:
    """Return a figure with the ends of its interval, if it has one: `-38% (-41% to -35%)`."""
    return value if ends == MISSING else f"{value} ({ends})"


def with_interval_ms(estimate: statistics.Estimate | None) -> str:
    """Return an estimate in seconds as milliseconds, `4.93 (4.80 to 5.01)`."""
    if estimate is None:
        return MISSING
    digits = 2 if estimate.value < 0.01 else 1 if estimate.value < 0.1 else 0
    ends = interval(estimate, scale=1e3, digits=digits)
    return with_ends(number(estimate.value * 1e3, digits=digits), ends)


def cached_words(shares: Mapping[str, float]) -> str:
    """Say which share of each variant's prompt tokens came from a cache of its server."""
    return ", ".join(f"{variant} {share:.1%}" for variant, share in shares.items())
