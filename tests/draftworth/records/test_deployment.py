"""What the programs of a deployment tell each other: the capacity plan, and servers' states."""

import json
from typing import Any

import pytest

from draftworth.records import servers
from draftworth.records.codec import RecordError, dump_text, load_record
from draftworth.records.deployment import CapacityPlan, spent_usd
from tests.lambdas.capacity_controller import plans


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nodes", "1"),
        ("variants", []),
        ("startup_minutes", 0),
        ("capacity", "stolen"),
        ("budget_usd", None),
        ("schema", "draftworth.capacity-plan/1"),
    ],
)
def test_a_plan_of_another_form_is_refused_with_the_key(key: str, value: object) -> None:
    data = {**json.loads(dump_text(plans.make_plan())), key: value}
    with pytest.raises(RecordError, match=key):
        load_record(CapacityPlan, json.dumps(data))


def test_a_model_that_is_target_and_draft_is_waited_for_once() -> None:
    assert plans.make_plan().models == (plans.TARGET, plans.DRAFT)
    plan = plans.make_plan(target=plans.DRAFT)
    assert plan.models == (plans.DRAFT,)


def test_cost_is_hours_times_price() -> None:
    assert spent_usd(8.6, node_seconds=5400, block_node_seconds=None) == pytest.approx(12.9)
    assert spent_usd(8.6, node_seconds=5400, block_node_seconds=7200) == pytest.approx(17.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": 0}, "start: given 0"),
        ({"reason": ""}, "reason"),
        ({"phase": "healthy"}, "reason"),
    ],
)
def test_what_contradicts_itself_is_no_state(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plans.make_given_up(**change)


def test_of_a_log_the_end_is_kept_as_printable_lines() -> None:
    kept = servers.last_lines((*(f"line {number}" for number in range(100)), "\x1b[2J red"))
    assert len(kept) == servers.LAST_LINES
    assert kept[-1] == "\\x1b[2J red"
    assert kept[0] == "line 51"
