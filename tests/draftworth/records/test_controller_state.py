"""The capacity controller's state says what the nodes of a deployment cost."""

import pytest

from draftworth.records.controller_state import NodeTime
from tests.lambdas.capacity_controller.plans import NOW, make_deployment, make_plan


@pytest.mark.parametrize(("block_node_seconds", "spent_usd"), [(None, 12.9), (7200.0, 17.2)])
def test_cost_is_hours_times_price(block_node_seconds: float | None, spent_usd: float) -> None:
    deployment = make_deployment(
        make_plan(price_usd_per_node_hour=8.6),
        node_time=NodeTime(node_seconds=5400.0, instances=1, observed_at_unix_s=NOW),
        block_node_seconds=block_node_seconds,
    )
    assert deployment.spent_usd == pytest.approx(spent_usd)
