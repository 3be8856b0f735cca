"""Finds up to which concurrency and prompt length a variant is cheaper than the baseline.

A variant is cheaper up to a concurrency if it is judged `cheaper per token` there and at every
lower measured concurrency. At higher concurrencies it may be judged otherwise. Nothing is known
between two measured concurrencies, and where a judgement is inconclusive, the variant does not
count as cheaper.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.speeds import speed_of
from draftworth.decision.verdict import Comparison
from draftworth.metrics import definitions
from draftworth.records.judgement import Judgement
from draftworth.records.results import AS_SHIPPED, CONTROL
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class Rung:
    """The comparisons of all variants with the baseline at one concurrency, in one traffic.

    comparisons: by variant. concurrency: the number of requests in flight.
    costs: by variant, the cost of a million output tokens, in US dollars or, without a price, in
        server hours.
    itls_s: by variant, the ITL in seconds per token: the mean of the classes' medians, weighted by
        output tokens.
    """

    concurrency: int
    comparisons: Mapping[str, Comparison]
    costs: Mapping[str, float]
    itls_s: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The comparisons of all variants with the baseline in one traffic, at each concurrency.

    traffic: its name: the traffic mix or a prompt class.
    input_tokens: the length of every prompt; None: prompts keep their own lengths.
    variants: the names of the baseline, which is the first, and of the variants.
    rungs: one for each measured concurrency, the lowest first.
    has_price: whether all servers have a price; if not, costs are in server hours.
    """

    traffic: str
    input_tokens: int | None
    variants: tuple[str, ...]
    rungs: tuple[Rung, ...]
    has_price: bool

    @property
    def speculative(self) -> tuple[str, ...]:
        return tuple(name for name in self.variants[1:] if name != AS_SHIPPED)

    def cheaper_up_to(self, variant: str) -> Rung | None:
        """Return the highest concurrency (`Rung`) up to which the variant is cheaper per token.

        None if it is not cheaper at the lowest one.
        """
        last = None
        for rung in self.rungs:
            comparison = rung.comparisons.get(variant)
            if comparison is None or comparison.judgement != Judgement.CHEAPER:
                break
            last = rung
        return last


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """The comparisons in one traffic at each prompt length and concurrency.

    ladders: one for each prompt length, the shortest first; each has all concurrencies.
    """

    ladders: tuple[Ladder, ...]

    @property
    def traffic(self) -> str:
        return self.ladders[0].traffic

    @property
    def speculative(self) -> tuple[str, ...]:
        return self.ladders[0].speculative

    def corners(self, variant: str) -> Iterator[tuple[int, int]]:
        """Yield the corners of the region in which the variant is cheaper per token.

        Each corner is (concurrency, input tokens): the variant is cheaper there, and also at every
        combination of an equal or lower measured concurrency and an equal or shorter measured
        prompt length.
        """
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


def contexts_of(ladders: Sequence[Ladder]) -> tuple[Contexts, ...]:
    """Return, for each traffic measured with several prompt lengths, the ladders of all lengths.

    ladders: each has the comparisons with the baseline in one traffic at one prompt length, by
        concurrency.
    """
    by_traffic: dict[str, list[Ladder]] = {}
    for ladder in ladders:
        if ladder.input_tokens is not None:
            by_traffic.setdefault(ladder.traffic, []).append(ladder)
    return tuple(
        Contexts(
            ladders=tuple(sorted(ladders_of_traffic, key=lambda ladder: ladder.input_tokens or 0))
        )
        for ladders_of_traffic in by_traffic.values()
        if len(ladders_of_traffic) > 1
    )


def ladders_of(run: Run, comparisons: Iterable[Comparison]) -> tuple[Ladder, ...]:
    """Return the comparisons by concurrency (`Ladder`) for each traffic and prompt length.

    Left out are comparisons at a request rate, which have no concurrency, those of the control (a
    second baseline server), and those with another baseline than the run's.
    """
    by_traffic: dict[tuple[str, int | None], list[Comparison]] = {}
    for comparison in comparisons:
        traffic = comparison.traffic
        is_asked = comparison.baseline == run.result.baseline and comparison.variant != CONTROL
        if is_asked and traffic.load.in_flight is not None:
            by_traffic.setdefault((traffic.name, traffic.load.input_tokens), []).append(comparison)
    return tuple(_ladder(run, *key, compared) for key, compared in by_traffic.items())


def _ladder(
    run: Run, traffic: str, input_tokens: int | None, comparisons: Sequence[Comparison]
) -> Ladder:
    variants = (run.result.baseline, *dict.fromkeys(c.variant for c in comparisons))
    loads = dict.fromkeys(c.traffic.load for c in comparisons)
    rungs = (
        _rung(run, variants, [c for c in comparisons if c.traffic.load == load])
        for load in sorted(loads, key=lambda load: load.order)
    )
    return Ladder(
        traffic=traffic,
        input_tokens=input_tokens,
        variants=variants,
        rungs=tuple(rungs),
        has_price=all(definitions.slot_usd_per_second(run.result.price, name) for name in variants),
    )


def _rung(run: Run, variants: Sequence[str], comparisons: Sequence[Comparison]) -> Rung:
    traffic = comparisons[0].traffic
    costs, itls_s = {}, {}
    for variant in variants:
        speed = speed_of(run.blocks, traffic, variant)
        if rate := speed.output_throughput_token_per_s:
            usd_per_second = definitions.slot_usd_per_second(run.result.price, variant)
            costs[variant] = 1e6 / rate * (usd_per_second or 1 / definitions.SECONDS_PER_HOUR)
        if speed.inter_token_latency_s is not None:
            itls_s[variant] = speed.inter_token_latency_s
    return Rung(
        concurrency=traffic.load.in_flight or 0,
        comparisons={c.variant: c for c in comparisons},
        costs=costs,
        itls_s=itls_s,
    )
