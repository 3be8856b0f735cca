"""Load shapes: their limits, labels, schedules and durations."""

from argparse import ArgumentParser
from dataclasses import MISSING, fields, replace
from itertools import islice, pairwise
from typing import Any, get_args

import pytest

from draftworth.cli import measure, resuming
from draftworth.records.load_shapes import (
    ConcurrencyLoad,
    Load,
    PoissonLoad,
    cell_of_label,
    words_of_label,
)


def concurrency(in_flight: int) -> Load:
    return ConcurrencyLoad(concurrency=in_flight)


def poisson(rate: float) -> Load:
    return PoissonLoad(requests_per_second=rate)


def test_concurrencies_start_at_one_and_rates_above_zero() -> None:
    for in_flight in (0, -1):
        with pytest.raises(ValueError, match=rf"concurrency: given {in_flight}, allowed: 1 or mo"):
            concurrency(in_flight)
    for rate in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"requests_per_second: given .*, allowed: above 0"):
            poisson(rate)


def test_a_concurrency_is_due_from_the_start() -> None:
    load = concurrency(4)
    assert list(islice(load.due_seconds(1), 3)) == [0.0, 0.0, 0.0]


def test_arrivals_are_random_and_reproducible() -> None:
    due = list(islice(poisson(50).due_seconds(1), 2000))
    assert due == list(islice(poisson(50).due_seconds(1), 2000))
    assert due != list(islice(poisson(50).due_seconds(2), 2000))
    assert all(later > earlier > 0 for earlier, later in pairwise(due))
    assert due[-1] == pytest.approx(2000 / 50, rel=0.1)


@pytest.mark.parametrize(
    ("load", "wanted", "shares"),
    [
        (concurrency(1), 0, ()),
        (concurrency(1), 2, (1.0, 1.0)),
        (concurrency(4), 0, (0.25, 0.5, 0.75, 1.0)),
        (concurrency(2), 4, (0.5, 1.0, 1.0, 1.0)),
        (poisson(2.5), 0, (1.0,) * 32),
        (poisson(2.5), 31, (1.0,) * 32),
        (poisson(2.5), 40, (1.0,) * 40),
    ],
)
def test_a_warm_up_fills_the_load_in_steps(
    load: Load, wanted: int, shares: tuple[float, ...]
) -> None:
    assert load.warmup_shares(wanted) == shares


@pytest.mark.parametrize(
    ("warmup", "requests", "in_flight", "seats", "expected"),
    [
        # One after the other.
        (1, 8, 1, 4, (1 + 8) * 5),
        (0, 8, 1, 4, 8 * 5),
        # The first measured request starts 5 / 4 s after the warm-up, the eighth 10 s, for 5 s.
        (1, 8, 4, 4, 10 + 5),
        (6, 8, 4, 4, (2 + 8) * 5 / 4 + 5),
        # Eight in flight on a server that decodes four at once.
        (1, 8, 8, 4, (8 + 8) * 5 / 4),
    ],
)
def test_a_block_lasts_as_long_as_each_stream(
    warmup: int, requests: int, in_flight: int, seats: int, expected: float
) -> None:
    load = concurrency(in_flight)
    seconds = load.sending_seconds(requests, warmup=warmup, request_seconds=5.0, seats=seats)
    assert seconds == expected


@pytest.mark.parametrize(
    ("warmup", "requests", "rate", "expected"),
    [
        (33, 7, 0.5, 40 / 0.5 + 5),  # they arrive in 80 s, and the last one takes 5
        (33, 7, 100.0, 10 * 5),  # at once: ten waves of four
        (1, 7, 0.5, 39 / 0.5 + 5),  # the least warm-up at a rate is 32 requests
    ],
)
def test_random_requests_take_their_arrival_or_decoding(
    warmup: int, requests: int, rate: float, expected: float
) -> None:
    load = poisson(rate)
    seconds = load.sending_seconds(requests, warmup=warmup, request_seconds=5.0, seats=4)
    assert seconds == expected


def test_only_a_full_server_has_token_costs() -> None:
    load = concurrency(4)
    assert (load.has_cost_per_token, load.in_flight) == (True, 4)
    # Two requests of 3 s, each with a quarter of the server.
    assert load.server_seconds([3.0, 3.0], span_seconds=9.0) == 1.5
    assert (poisson(2.5).has_cost_per_token, poisson(2.5).in_flight) == (False, None)
    assert poisson(2.5).server_seconds([3.0, 3.0], span_seconds=9.0) == 9.0


def test_loads_are_ordered_by_length_then_demand() -> None:
    for small, large in ((concurrency(4), concurrency(16)), (poisson(0.5), poisson(2))):
        longer = replace(small, input_tokens=2000)
        assert sorted([longer, large, small], key=lambda load: load.order) == [small, large, longer]


@pytest.mark.parametrize(("load", "label"), [(concurrency(4), "c4"), (poisson(2.5), "p2.5")])
def test_a_load_has_a_label(load: Load, label: str) -> None:
    assert load.label == label


@pytest.mark.parametrize("shape", get_args(Load))
def test_measure_reads_the_option_of_every_load(shape: type[Load]) -> None:
    arguments: dict[str, Any] = {f.name: 3 for f in fields(shape) if f.default is MISSING}
    load = shape(**arguments)
    parser = ArgumentParser()
    measure.add_arguments(parser)
    required = ("--base-url", "URL", "--model", "NAME", "--prompts", ".", "--out", "DIR")
    parsed = parser.parse_args([*required, *load.option.split()])
    options = resuming.completed(parsed, None, resuming.DEFAULTS, needed=())
    assert measure.loads_of(options) == (load,)


@pytest.mark.parametrize(
    ("load", "words", "cell"),
    [
        (concurrency(1), "one request at a time", "1 at a time"),
        (concurrency(8), "8 requests at a time", "8 at a time"),
        (
            ConcurrencyLoad(concurrency=2, input_tokens=2000),
            "2 requests at a time with prompts of 2,000 tokens",
            "2 at a time, 2,000 tokens in",
        ),
        (poisson(1), "one request per second", "1 per second"),
        (poisson(2.5), "2.5 requests per second", "2.5 per second"),
        (poisson(1e-5), "1e-05 requests per second", "1e-05 per second"),
    ],
)
def test_people_read_a_load_in_words(load: Load, words: str, cell: str) -> None:
    assert (load.words, load.cell) == (words, cell)
    assert (words_of_label(load.label), cell_of_label(load.label)) == (words, cell)


@pytest.mark.parametrize("text", ["", "c0", "c1.5", "p0", "x4", "c4-i0", "c4 or more"])
def test_a_text_that_no_load_has_stays(text: str) -> None:
    assert (words_of_label(text), cell_of_label(text)) == (text, text)
