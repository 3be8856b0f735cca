"""What the programs of a deployment tell each other: the capacity plan, and servers' states."""

import pytest

from draftworth.records import servers
from draftworth.records.deployment import spent_usd
from tests.lambdas.capacity_controller import plans


def test_a_model_that_is_target_and_draft_is_waited_for_once() -> None:
    assert plans.make_plan().models == (plans.TARGET, plans.DRAFT)
    plan = plans.make_plan(target=plans.DRAFT)
    assert plan.models == (plans.DRAFT,)


def test_cost_is_hours_times_price() -> None:
    assert spent_usd(8.6, node_seconds=5400, block_node_seconds=None) == pytest.approx(12.9)
    assert spent_usd(8.6, node_seconds=5400, block_node_seconds=7200) == pytest.approx(17.2)


def test_of_a_log_the_end_is_kept_as_printable_lines() -> None:
    kept = servers.last_lines((*(f"line {number}" for number in range(100)), "\x1b[2J red"))
    assert len(kept) == servers.LAST_LINES
    assert kept[-1] == "\\x1b[2J red"
    assert kept[0] == "line 51"
