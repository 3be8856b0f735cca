"""What a Capacity Block costs, how much of it is idle, and what fits into it, computed by hand."""

import pytest

from draftworth.experiment.aws import Capacity
from draftworth.planning.assumptions import Bounds
from draftworth.planning.capacity_block import PaidBlock, free_slots
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import forecast
from tests.support import experiments
from tests.support.timelines import BY_HAND, QWEN


def block_of(experiment: ResolvedNeuron, hours: float | None = None) -> PaidBlock:
    block = {"kind": "capacity_block", "reservation_id": "cr-0123456789abcdef0", "hours": hours}
    bought = Capacity.model_validate(block)
    paid_block = PaidBlock.of(experiments.changed_aws(experiment, capacity=bought))
    assert paid_block
    return paid_block


def whole_node_each(experiment: ResolvedNeuron) -> ResolvedNeuron:
    return experiments.changed_in(experiment, "serving", slot_devices=16)


def test_a_block_without_hours_is_a_whole_day() -> None:
    block = block_of(QWEN)
    assert (block.hours, block.instances) == (24, 1)
    assert block.usd == pytest.approx(24 * 15.09)
    # AWS also sells the rest of the current day: here 16:00 to 11:30.
    assert block_of(QWEN, 19.5).usd == pytest.approx(19.5 * 15.09)


@pytest.mark.parametrize(
    ("experiment", "nodes", "instances"),
    [
        (QWEN, 1, 1),
        (whole_node_each(QWEN), 2, 2),
        (whole_node_each(experiments.with_third_variant(QWEN)), 3, 4),
        (experiments.on_small_nodes(experiments.resolved("llama-3.1-8b-eagle3")), 2, 2),
    ],
)
def test_a_block_has_one_two_four_eight_instances(
    experiment: ResolvedNeuron, nodes: int, instances: int
) -> None:
    block = block_of(experiment)
    assert (block.nodes, block.instances) == (nodes, instances)
    room = instances * experiment.placement.slots_per_node - len(experiment.variants)
    assert free_slots(experiment, instances) == room


def test_the_idle_part_counts_unused_hours_and_instances() -> None:
    day = PaidBlock(hours=24, instances=4, nodes=3, usd_per_instance_hour=1)
    # Three of the four nodes run for a third of the day, for the whole day, and for longer than it.
    used = (480, 1440, 9999)
    idle = [day.idle_share(Bounds(minutes, minutes)).best for minutes in used]
    assert idle == pytest.approx([0.75, 0.25, 0])


def test_what_else_fits_by_hand() -> None:
    """The first run uses its node for 82.08 minutes; of later runs the deploy counts too."""
    first, second = forecast(QWEN, BY_HAND), forecast(QWEN, BY_HAND, second=True)
    long = max(span.end for span in second.unlimited.best.spans.values())
    more = block_of(QWEN).further_runs(first, second)
    # EKS removes the nodes 40 minutes before the block of 24 hours ends, so 1,400 are usable.
    assert more.best == (1400 - 82.08) // long
    assert more.worst < more.best
    none = block_of(QWEN, 1).further_runs(first, second)
    assert (none.best, none.worst) == (0, 0)
