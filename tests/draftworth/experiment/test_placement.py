"""Which slots (the devices of one server) variants get, and on which nodes."""

from pathlib import Path

import pytest

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.placement import Placement, place
from tests.support import experiments


def placed(folder: Path, *, variants: int, slot_devices: int) -> Placement:
    draft = {"model": "Qwen/Qwen3-1.7B"}
    extra = [
        {"name": f"k{k}", "method": "fused_draft", "draft": {**draft}, "window": k}
        for k in range(2, variants + 1)
    ]
    edit = experiments.both(
        experiments.put("variants", value=[{"name": "baseline", "method": "none"}, *extra]),
        experiments.put("serving", "slot_devices", value=slot_devices),
    )
    experiment = experiments.load_spec(experiments.write_experiment(folder, edit))
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
    assert {placement.node_share(slot) for slot in placement.slots} == {slot_devices / 16}


def numbers(repetitions: int, *, control: bool, variants: int = 2) -> dict[str, list[int]]:
    """Return the numbers of each variant's slots; the one in which it starts comes first."""
    experiment = experiments.resolved()
    experiment = experiments.with_third_variant(experiment) if variants == 3 else experiment
    made = experiments.changed(experiment, repetitions=repetitions, control=control)
    return {v.name: [slot.number for slot in v.slots] for v in made.variants}


def test_servers_move_by_slots_without_collisions() -> None:
    assert numbers(1, control=False) == {"baseline": [0], "qwen3-1.7b-k7": [1]}
    assert numbers(1, control=True) == {"baseline": [0, 1], "qwen3-1.7b-k7": [1]}
    assert numbers(2, control=False) == {"baseline": [0, 1], "qwen3-1.7b-k7": [1, 0]}
    three = {"baseline": [0, 1], "qwen3-1.7b-k7": [1, 2], "k5": [2, 0]}
    assert numbers(4, control=True, variants=3) == three


@pytest.mark.parametrize(
    ("variants", "slot_devices", "devices"),
    [
        (2, 8, (0, 15)),
        (3, 8, (0, 15)),
        (4, 4, (0, 5, 10, 15)),
        (2, 16, (0,)),
        (16, 1, tuple(range(16))),
    ],
)
def test_a_nodes_places_differ_by_one_device_each(
    tmp_path: Path, variants: int, slot_devices: int, devices: tuple[int, ...]
) -> None:
    placement = placed(tmp_path, variants=variants, slot_devices=slot_devices)
    assert placement.corner_devices() == devices
    for place_number, device in enumerate(devices):
        assert device // slot_devices == place_number, "in the recorded group of that place"
    places = [placement.place(slot) for slot in placement.slots]
    assert places == [n % len(devices) for n in range(variants)]
