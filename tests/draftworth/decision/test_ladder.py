"""Up to which concurrency and prompt length a variant pays, for given judgements and for runs."""

from dataclasses import replace

import pytest

from draftworth.decision.ladder import Contexts, Ladder, contexts_of
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.report.contents import document_of
from draftworth.report.overview_plots import overview_plots
from draftworth.report.sentences import (
    headline,
    ladder_words,
    reach_sentences,
    reach_words,
    verdict_of,
)
from tests.draftworth.decision.loads import blocks_at, facts_at, in_flight
from tests.draftworth.report import runs
from tests.support.blocks import make_price
from tests.support.present import present

GOOD: Judgement = Judgement.CHEAPER
PRICE = make_price(
    usd_per_node_hour=8.0, node_shares=dict.fromkeys((runs.BASELINE, runs.VARIANT), 0.5)
)


def judged(*judgements: Judgement) -> Ladder:
    """Return a ladder with the concurrencies 1, 2, 4, ... and these judgements.

    The interval of each cost ratio is 0.7 to 0.8.
    """
    (ladder,) = facts_at(1, 2).ladders
    rung = ladder.rungs[0]
    compared = rung.comparisons[runs.VARIANT]
    ratio = replace(present(compared.cost_ratio), low=0.7, high=0.8)
    comparisons = [
        replace(compared, judgement=judgement, cost_ratio=ratio) for judgement in judgements
    ]
    rungs = (
        replace(rung, concurrency=2**n, comparisons={runs.VARIANT: each})
        for n, each in enumerate(comparisons)
    )
    return replace(ladder, rungs=tuple(rungs))


@pytest.mark.parametrize(
    ("judgements", "clauses"),
    [
        (
            (GOOD, GOOD, Judgement.MORE_EXPENSIVE),
            ["cheaper up to 2 requests at a time", "more expensive at 4"],
        ),
        (
            (GOOD, Judgement.INCONCLUSIVE, Judgement.MORE_EXPENSIVE),
            ["cheaper up to one request at a time", "inconclusive at 2", "more expensive at 4"],
        ),
        ((GOOD, GOOD), ["cheaper at every load, up to 2 requests at a time"]),
        # A variant that is cheaper at 4 but not at 2 is not called cheaper up to 4.
        (
            (GOOD, Judgement.OUTSIDE_LIMITS, GOOD),
            [
                "cheaper up to one request at a time",
                "outside the limits at 2",
                "cheaper per token at 4",
            ],
        ),
    ],
)
def test_where_it_stops_paying_is_listed_by_load(
    judgements: tuple[Judgement, ...], clauses: list[str]
) -> None:
    assert reach_words(judged(*judgements), runs.VARIANT) == "; ".join(
        f"{s} (20 to 30% less)" for s in clauses
    )


def test_not_cheaper_at_lowest_load_means_no_reach() -> None:
    ladder = judged(Judgement.NO_DIFFERENCE, Judgement.CHEAPER)

    assert ladder.cheaper_up_to(runs.VARIANT) is None
    assert reach_words(ladder, runs.VARIANT) == (
        "not shown to be cheaper at the lightest load; no difference at 1 (20 to 30% less); "
        "cheaper per token at 2 (20 to 30% less)"
    )


def test_a_load_without_an_interval_says_so() -> None:
    ladder = judged(Judgement.CHEAPER, Judgement.INCONCLUSIVE)
    last = ladder.rungs[-1]
    unknown = {runs.VARIANT: replace(last.comparisons[runs.VARIANT], cost_ratio=None)}
    ladder = replace(ladder, rungs=(ladder.rungs[0], replace(last, comparisons=unknown)))

    assert reach_words(ladder, runs.VARIANT).endswith("; inconclusive at 2 (no interval)")


def test_headline_notes_and_report_contain_the_ladder() -> None:
    # The higher load is measured first; the ladder has the lower one first all the same.
    facts = facts_at(4, 1)

    line = headline(facts)
    (note, *_) = verdict_of(facts).notes
    assert note.startswith(f"structured, {runs.VARIANT}: ")
    assert line.endswith(note.split(": ", 1)[1][1:])
    assert [rung.concurrency for rung in facts.ladders[0].rungs] == [1, 4]


def test_a_mix_has_the_ladder_instead_of_classes() -> None:
    blocks = blocks_at(*in_flight(1, 2), classes=("structured", "open_ended"))
    facts = runs.make_facts(runs.make_run(blocks=blocks))

    assert [ladder.traffic for ladder in facts.ladders] == ["traffic mix"]


@pytest.mark.parametrize(
    "loads",
    [in_flight(4), (PoissonLoad(requests_per_second=1.0), PoissonLoad(requests_per_second=2.0))],
)
def test_one_concurrency_or_rates_have_no_ladder(loads: tuple[Load, ...]) -> None:
    blocks = blocks_at(*loads)
    facts = runs.make_facts(runs.make_run(blocks=blocks, class_weights={}))
    assert list(reach_sentences(facts)) == []
    assert not any("over-concurrency" in plot.name for plot in overview_plots(facts))


def test_a_rungs_cost_is_per_million_tokens() -> None:
    (hours,) = facts_at(1, 2).ladders
    (usd,) = facts_at(1, 2, price=PRICE).ladders

    assert (hours.has_price, usd.has_price) == (False, True)
    rung = hours.rungs[0]
    # A request has 100 tokens in 0.25 s + 99 x 10.35 ms, and the server has one request at a time.
    assert rung.costs[runs.BASELINE] == pytest.approx((0.25 + 99 * 0.01035) / 100 * 1e6 / 3600)
    assert usd.rungs[0].costs[runs.BASELINE] == pytest.approx(rung.costs[runs.BASELINE] * 4.0)
    assert rung.itls_s[runs.BASELINE] == pytest.approx(0.01035)


def contexts(table: dict[int, tuple[Judgement, ...]]) -> Contexts:
    """Return `Contexts` with these judgements at the concurrencies 1, 2, 4, ...

    table: the judgements by prompt length in tokens.
    """
    (measured,) = contexts_of(
        [replace(judged(*judgements), input_tokens=length) for length, judgements in table.items()]
    )
    return measured


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {2000: (GOOD, GOOD, Judgement.MORE_EXPENSIVE), 8000: (GOOD, GOOD, GOOD)},
            "cheaper up to 2 requests at a time and 8,000 tokens of context",
        ),
        # The longest prompts are measured first; the words begin with the shortest all the same.
        (
            {
                8000: (GOOD, Judgement.MORE_EXPENSIVE, Judgement.MORE_EXPENSIVE),
                2000: (GOOD, GOOD, GOOD),
            },
            "cheaper up to 4 requests at a time and 2,000 tokens of context, up to 1 and 8,000",
        ),
        (
            {
                2000: (GOOD, Judgement.MORE_EXPENSIVE),
                4000: (Judgement.INCONCLUSIVE, Judgement.MORE_EXPENSIVE),
                8000: (GOOD, GOOD),
            },
            "cheaper up to one request at a time and 2,000 tokens of context",
        ),
        (
            {2000: (Judgement.INCONCLUSIVE, GOOD), 8000: (GOOD, GOOD)},
            "not shown to be cheaper at the lowest load with the shortest context",
        ),
    ],
)
def test_load_and_context_are_told_together(
    table: dict[int, tuple[Judgement, ...]], words: str
) -> None:
    assert reach_words(contexts(table), runs.VARIANT) == words


def test_two_input_lengths_share_a_table() -> None:
    loads = [
        ConcurrencyLoad(concurrency=n, input_tokens=length)
        for length in (2000, 8000)
        for n in (1, 4)
    ]
    blocks = blocks_at(*loads)
    facts = runs.make_facts(runs.make_run(blocks=blocks, class_weights={"structured": 1.0}))

    assert [ladder_words(ladder) for ladder in facts.ladders] == [
        "structured of 2,000 input tokens",
        "structured of 8,000 input tokens",
    ]
    (measured,) = facts.contexts
    assert headline(facts).endswith(f" C{reach_words(measured, runs.VARIANT)[1:]}.")
    assert (
        verdict_of(facts).notes[0]
        == f"structured, {runs.VARIANT}: {reach_words(measured, runs.VARIANT)}."
    )
    tables = document_of(facts).sections[0].tables
    (table,) = [t for t in tables if "2,000 input tokens" in t.headings]
    assert [row[:3] for row in table.rows] == [
        ("structured", runs.VARIANT, "1"),
        ("structured", runs.VARIANT, "4"),
    ]
    assert all(
        cell.endswith(("token", Judgement.MORE_EXPENSIVE)) for row in table.rows for cell in row[3:]
    )
