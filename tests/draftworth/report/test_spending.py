"""Where a run's time and money went, stated apart from the cost of its tokens."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.costs import run_parts, total
from draftworth.metrics.definitions import COST
from draftworth.records.results import TimeAccount
from draftworth.report.contents import document_of
from draftworth.report.csv_files import figures_csv
from draftworth.report.document import Section
from tests.draftworth.report.runs import LOST, make_facts, make_run, make_run_result
from tests.support.blocks import make_price

PRICE = make_price(usd_per_node_hour=36.0, nodes=2)
TIME = TimeAccount(measuring_s=600.0, waiting_s=1200.0, lost_s=60.0, idle_s=30.0)
RUN = make_run_result(price=PRICE, time=TIME, interruptions=(LOST,))


def spending_of(**overrides: Any) -> Section:
    document = document_of(make_facts(make_run(time=TIME, **overrides)))
    return next(s for s in document.sections if s.title == "Time and cost of the run")


def test_every_second_of_every_node_is_paid_for() -> None:
    # Each of two nodes costs 36 USD per hour, so both together cost 2 cents per second.
    paid = {part.name: part.usd for part in run_parts(RUN)}
    assert paid == pytest.approx({"measuring": 12.0, "waiting": 24.0, "lost": 1.2, "idle": 0.6})
    assert total(run_parts(RUN)).usd == pytest.approx((600 + 1200 + 60 + 30) * 0.02)


def test_a_run_without_rent_mentions_no_dollars() -> None:
    parts = run_parts(make_run_result(time=TIME))
    assert [part.usd for part in (*parts, total(parts))] == [None] * 5
    section = spending_of()
    assert "USD" not in " ".join(section.paragraphs)
    assert "USD" not in " ".join(section.tables[0].headings)


def test_the_csv_file_has_parts_and_interruptions() -> None:
    facts = make_facts(make_run(price=PRICE, time=TIME, interruptions=(LOST,)))
    lines = figures_csv(facts).splitlines()
    rows = dict(line.split(",")[3:5] for line in lines if line.startswith(",,,run_"))
    assert float(rows["run_waiting_s"]) == 1200.0
    assert float(rows["run_waiting_usd"]) == pytest.approx(24.0)
    assert rows["run_interruptions"] == "1"


def test_waiting_and_idle_time_change_no_token_cost() -> None:
    def costs_of_tokens(time: TimeAccount) -> list[float | None]:
        facts = make_facts(make_run(price=PRICE, time=time))
        return [v.value(COST) for v in facts.variants]

    idle = costs_of_tokens(replace(TIME, waiting_s=99_999.0, idle_s=99_999.0))
    assert idle == costs_of_tokens(TIME)
    assert None not in idle
