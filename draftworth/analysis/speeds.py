"""How fast one variant's server is in a traffic: for one reader, and for all of them together."""

from collections.abc import Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Traffic, weighted
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, OUTPUT_THROUGHPUT
from draftworth.records.results import BlockResult


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of a server in a traffic; None: not measured in each of its classes.

    inter_token_latency_s: seconds between two tokens of an answer: the mean of the classes'
        medians, weighted by output tokens.
    output_throughput_token_per_s: output tokens per second of all requests together: the weighted
        harmonic mean of the classes' figures, because each class takes its part of the tokens.
    """

    inter_token_latency_s: float | None
    output_throughput_token_per_s: float | None


def speed_of(blocks: Sequence[BlockResult], traffic: Traffic, variant: str) -> Speed:
    """Return the speed of a variant's server in a traffic."""
    seconds_per_token = weighted(blocks, traffic, variant, OUTPUT_THROUGHPUT, power=-1)
    return Speed(
        inter_token_latency_s=weighted(blocks, traffic, variant, INTER_TOKEN_LATENCY),
        output_throughput_token_per_s=1 / seconds_per_token if seconds_per_token else None,
    )
