"""Slots onto nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.placement import Placement, place
from tests.support.experiments import (
    both,
    load_spec,
    on_small_nodes,
    put,
    resolved,
    write_experiment,
)


def placed(folder: Path, *, variants: int, slot_devices: int) -> Placement:
    extra = [
        {
            "name": f"k{k}",
            "method": "fused_draft",
            "draft": {"model": "Qwen/Qwen3-1.7B"},
            "window": k,
        }
        for k in range(2, variants + 1)
    ]
    edit = both(
        put("variants", value=[{"name": "baseline", "method": "none"}, *extra]),
        put("serving", "slot_devices", value=slot_devices),
        put("serving", "tensor_parallel_size", value=slot_devices * 4),
    )
    experiment = load_spec(write_experiment(folder, edit))
    assert isinstance(experiment, NeuronExperiment)
    return place(experiment)


@pytest.mark.parametrize(
    ("variants", "slot_devices", "nodes"),
    [(2, 8, 1), (3, 8, 2), (2, 16, 2), (4, 4, 1), (5, 4, 2), (16, 1, 1)],
)
def test_nodes_needed(tmp_path: Path, variants: int, slot_devices: int, nodes: int) -> None:
    placement = placed(tmp_path, variants=variants, slot_devices=slot_devices)

    assert placement.nodes == nodes
    for node in range(nodes):
        assert sum(s.devices for s in placement.slots if s.node == node) <= 16
    assert len(placement.slots) == variants


def test_one_device_a_node_is_one_node_a_variant() -> None:
    placement = on_small_nodes(resolved("llama-3.1-8b-eagle3")).placement
    assert (placement.nodes, placement.slots_a_node) == (2, 1)
    assert [placement.node_share(slot) for slot in placement.slots] == [1, 1]


def test_a_slot_knows_its_share_of_the_node(tmp_path: Path) -> None:
    placement = placed(tmp_path, variants=2, slot_devices=8)
    assert [placement.node_share(slot) for slot in placement.slots] == [0.5, 0.5]
