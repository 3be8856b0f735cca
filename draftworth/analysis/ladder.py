"""Where it stops paying: a traffic over the concurrencies measured, and over lengths of prompts.

A variant is cheaper up to the highest concurrency at which it is judged so, as it is at every lower
one that was measured. What lies above is said as it was judged, load by load: between two measured
loads nobody knows, and an inconclusive one decides nothing either way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Traffic
from draftworth.analysis.summary import summarize
from draftworth.analysis.verdict import Comparison
from draftworth.metrics.cost import SECONDS_PER_HOUR, slot_usd_per_second
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, OUTPUT_THROUGHPUT, Metric
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.reading import Run
from draftworth.records.results import AS_SHIPPED, CONTROL


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One concurrency; comparisons with the run's baseline by variant.

    costs: by variant, of a million output tokens: US dollars, or hours of a server where no price
        is known. itls_s: by variant, each class's median, weighted like its tokens.
    """

    concurrency: int
    comparisons: Mapping[str, Comparison]
    costs: Mapping[str, float]
    itls_s: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """A traffic at its concurrencies, from the lowest on; variants: the baseline first.

    input_tokens: of every prompt; None: prompts are as long as they are.
    """

    traffic: str
    input_tokens: int | None
    variants: tuple[str, ...]
    rungs: tuple[Rung, ...]
    has_price: bool

    @property
    def label(self) -> str:
        """`traffic mix`, or `traffic mix of 2,000 input tokens`."""
        length = "" if self.input_tokens is None else f" of {self.input_tokens:,} input tokens"
        return f"{self.traffic}{length}"

    @property
    def speculative(self) -> tuple[str, ...]:
        """Those that may be chosen."""
        return tuple(name for name in self.variants[1:] if name != AS_SHIPPED)

    def cheaper_up_to(self, variant: str) -> Rung | None:
        """The last rung up to which the variant is cheaper at each one; None: not at the first."""
        last = None
        for rung in self.rungs:
            comparison = rung.comparisons.get(variant)
            if comparison is None or comparison.judgement != "cheaper per token":
                break
            last = rung
        return last

    def reach(self, variant: str) -> str:
        """`cheaper up to concurrency 2 (-30% to -20%); dearer at 4 (+8% to +15%)`."""
        last = self.cheaper_up_to(variant)
        above = self.rungs[self.rungs.index(last) + 1 :] if last else self.rungs
        if last is None:
            start = "not shown to be cheaper at the lowest concurrency"
        elif above:
            start = f"cheaper up to concurrency {last.concurrency} ({_ends(last, variant)})"
        else:
            start = (
                f"cheaper at every measured concurrency, up to {last.concurrency} "
                f"({_ends(last, variant)})"
            )
        return "; ".join([start, *(_judged(rung, variant) for rung in above)])

    @property
    def sentences(self) -> Iterator[str]:
        """Of each variant that may be chosen; none of one concurrency alone."""
        for variant in self.speculative if len(self.rungs) > 1 else ():
            yield f"{self.label}, {variant}: {self.reach(variant)}."


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """A traffic's ladders from the shortest prompts to the longest."""

    ladders: tuple[Ladder, ...]

    @property
    def traffic(self) -> str:
        """What they are of."""
        return self.ladders[0].traffic

    @property
    def speculative(self) -> tuple[str, ...]:
        """Variants that may be chosen."""
        return self.ladders[0].speculative

    def reach(self, variant: str) -> str:
        """`cheaper up to 4 requests at a time and 2,000 tokens of context, up to 1 and 8,000`.

        So far, and not only there: at every lower load and shorter length too.
        """
        corners = list(self._corners(variant))
        if not corners:
            return "not shown to be cheaper at the lowest load with the shortest context"
        (most, tokens), *others = corners
        requests = f"{most} request{'s' * (most > 1)} at a time"
        more = "".join(f", up to {n} and {length:,}" for n, length in others)
        return f"cheaper up to {requests} and {tokens:,} tokens of context{more}"

    def _corners(self, variant: str) -> Iterator[tuple[int, int]]:
        """Concurrency and length, of each concurrency the longest."""
        most, corner = math.inf, None
        for ladder in self.ladders:
            last = ladder.cheaper_up_to(variant)
            reached = min(most, last.concurrency if last else 0)
            if corner and reached < most:
                yield corner
            if not reached:
                return
            most, corner = reached, (int(reached), ladder.input_tokens or 0)
        if corner:
            yield corner

    @property
    def sentences(self) -> Iterator[str]:
        """Of each variant that may be chosen."""
        for variant in self.speculative:
            yield f"{self.traffic}, {variant}: {self.reach(variant)}."


def contexts_of(ladders: Sequence[Ladder]) -> tuple[Contexts, ...]:
    """Of every traffic that was measured with prompts of more than one length."""
    by_traffic: dict[str, list[Ladder]] = {}
    for ladder in ladders:
        if ladder.input_tokens is not None:
            by_traffic.setdefault(ladder.traffic, []).append(ladder)
    return tuple(
        Contexts(ladders=tuple(sorted(found, key=lambda ladder: ladder.input_tokens or 0)))
        for found in by_traffic.values()
        if len(found) > 1
    )


def ladders_of(run: Run, comparisons: Iterable[Comparison]) -> tuple[Ladder, ...]:
    """Of every traffic, and length of prompts, that was compared with the baseline at a load that
    is kept full."""
    found: dict[tuple[str, int | None], list[Comparison]] = {}
    for comparison in comparisons:
        traffic = comparison.traffic
        is_asked = comparison.baseline == run.result.baseline and comparison.variant != CONTROL
        if is_asked and isinstance(traffic.load, ConcurrencyLoad):
            found.setdefault((traffic.name, traffic.load.input_tokens), []).append(comparison)
    return tuple(_ladder(run, *key, compared) for key, compared in found.items())


def _ladder(
    run: Run, traffic: str, input_tokens: int | None, comparisons: Sequence[Comparison]
) -> Ladder:
    variants = (run.result.baseline, *dict.fromkeys(c.variant for c in comparisons))
    loads = dict.fromkeys(c.traffic.load for c in comparisons)
    kept_full = [load for load in loads if isinstance(load, ConcurrencyLoad)]
    rungs = (
        _rung(run, load.concurrency, variants, [c for c in comparisons if c.traffic.load == load])
        for load in sorted(kept_full, key=lambda load: load.concurrency)
    )
    return Ladder(
        traffic=traffic,
        input_tokens=input_tokens,
        variants=variants,
        rungs=tuple(rungs),
        has_price=all(slot_usd_per_second(run.result.price, name) for name in variants),
    )


def _rung(
    run: Run, concurrency: int, variants: Sequence[str], comparisons: Sequence[Comparison]
) -> Rung:
    traffic = comparisons[0].traffic
    costs, itls_s = {}, {}
    for variant in variants:
        if (hours := _server_hours(run, traffic, variant)) is not None:
            usd_per_second = slot_usd_per_second(run.result.price, variant)
            costs[variant] = hours * (usd_per_second * SECONDS_PER_HOUR if usd_per_second else 1)
        if (itl_s := weighted(run, traffic, variant, INTER_TOKEN_LATENCY)) is not None:
            itls_s[variant] = itl_s
    return Rung(
        concurrency=concurrency,
        comparisons={c.variant: c for c in comparisons},
        costs=costs,
        itls_s=itls_s,
    )


def _server_hours(run: Run, traffic: Traffic, variant: str) -> float | None:
    """That a million output tokens of the traffic take."""
    seconds = weighted(run, traffic, variant, OUTPUT_THROUGHPUT, power=-1)
    return None if seconds is None else seconds * 1e6 / SECONDS_PER_HOUR


def weighted(
    run: Run, traffic: Traffic, variant: str, metric: Metric, *, power: int = 1
) -> float | None:
    """The mean over the traffic's classes, weighted like their output tokens."""
    values = [
        (traffic.weights[group.prompt_class], summarize(run.blocks, group, variant).value(metric))
        for group in traffic.groups
    ]
    known = [weight * value**power for weight, value in values if value]
    return math.fsum(known) if len(known) == len(values) else None


def _judged(rung: Rung, variant: str) -> str:
    comparison = rung.comparisons.get(variant)
    judgement = comparison.judgement if comparison else "not measured"
    return f"{judgement} at {rung.concurrency} ({_ends(rung, variant)})"


def _ends(rung: Rung, variant: str) -> str:
    comparison = rung.comparisons.get(variant)
    ratio = comparison.cost_ratio if comparison else None
    if ratio is None or ratio.low is None or ratio.high is None:
        return "no interval"
    return f"{ratio.low - 1:+.0%} to {ratio.high - 1:+.0%}"
