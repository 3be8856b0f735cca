"""Where a run's time and money went, stated apart from the cost of its tokens."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.costs import run_parts, total
from draftworth.metrics.definitions import COST
from draftworth.records.results import Interruption, TimeAccount
from draftworth.report.contents import document_of
from draftworth.report.document import Document, Section
from draftworth.report.tables import figures_csv
from tests.draftworth.report.runs import make_facts, make_run, make_run_result
from tests.support.blocks import START_UNIX_S, make_price

PRICE = make_price(usd_per_node_hour=36.0, nodes=2)
TIME = TimeAccount(measuring_s=600.0, waiting_s=1200.0, lost_s=60.0, idle_s=30.0)
LOST = Interruption(
    kind="servers",
    at_unix_s=START_UNIX_S + 700,
    lost_s=60.0,
    blocks=("0004-structured-count-c4-k7-r1",),
    reason="k7 is not ready any more: no answer within 5 s",
)
RUN = make_run_result(price=PRICE, time=TIME, interruptions=(LOST,))


def spending_in(document: Document) -> Section:
    return next(s for s in document.sections if s.title == "Time and cost of the run")


def spending_of(**overrides: Any) -> Section:
    return spending_in(document_of(make_facts(make_run(time=TIME, **overrides))))


def test_every_second_of_every_node_is_paid_for() -> None:
    # Two nodes at 36 USD an hour are 2 cents a second.
    paid = {part.name: part.usd for part in run_parts(RUN)}
    assert paid == pytest.approx({"measuring": 12.0, "waiting": 24.0, "lost": 1.2, "idle": 0.6})
    assert total(run_parts(RUN)).usd == pytest.approx((600 + 1200 + 60 + 30) * 0.02)


def test_a_run_that_rents_nothing_costs_nothing_and_says_no_dollars() -> None:
    parts = run_parts(make_run_result(time=TIME))
    assert [part.usd for part in (*parts, total(parts))] == [None] * 5
    section = spending_of()
    assert "USD" not in " ".join(section.paragraphs)
    assert {row[-1] for row in section.tables[0].rows} == {"-"}


def test_the_sentences_say_what_the_price_of_a_token_is_without() -> None:
    time_and_money, interrupted, without = spending_of(
        price=PRICE, interruptions=(LOST,)
    ).paragraphs
    assert time_and_money == "The run took 31.5 min on 2 nodes at 36.00 USD an hour: 37.80 USD."
    assert interrupted == (
        "Interrupted once (servers 1); nothing of what was lost is in any figure."
    )
    assert without.startswith(
        "The cost of a million tokens is that of serving alone: waiting, interruptions and idle "
        "time are not in it."
    )


def test_waiting_and_idle_time_do_not_move_the_cost_of_a_token() -> None:
    def costs_of_tokens(time: TimeAccount) -> list[float | None]:
        facts = make_facts(make_run(price=PRICE, time=time))
        return [v.value(COST) for v in facts.variants]

    idle = costs_of_tokens(replace(TIME, waiting_s=99_999.0, idle_s=99_999.0))
    assert idle == costs_of_tokens(TIME)
    assert None not in idle


def test_the_report_has_the_parts_their_sum_and_every_interruption() -> None:
    facts = make_facts(make_run(price=PRICE, time=TIME, interruptions=(LOST,)))
    document = document_of(facts)
    section = spending_in(document)
    spent, interrupted = section.tables
    assert section.title == "Time and cost of the run"
    assert spent.rows == (
        ("measuring (with warm-ups)", "10.0", "31.7%", "12.00"),
        ("waiting for servers (image pull, load, compile)", "20.0", "63.5%", "24.00"),
        ("lost to interruptions", "1.0", "3.2%", "1.20"),
        ("idle between blocks", "0.5", "1.6%", "0.60"),
        ("total", "31.5", "100.0%", "37.80"),
    )
    why = "k7 is not ready any more: no answer within 5 s"
    (block,) = LOST.blocks
    assert interrupted.rows == (("2026-11-20 10:11:40 UTC", "servers", block, why, "1.0"),)
    assert dict(document.facts)["interruptions"] == "once (servers 1)"
    assert dict(document_of(make_facts()).facts)["interruptions"] == "none"
    lines = figures_csv(facts).splitlines()
    rows = dict(line.split(",")[3:5] for line in lines if line.startswith(",,,run_"))
    assert float(rows["run_waiting_s"]) == 1200.0
    assert float(rows["run_waiting_usd"]) == pytest.approx(24.0)
    assert rows["run_interruptions"] == "1"
