"""The capacity plan: what the stack writes is what the function reads."""

import json

import pytest

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
