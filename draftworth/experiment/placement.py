"""Slots onto nodes: which variant runs on which node, and how many nodes that takes."""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.experiment.model import NeuronExperiment


@dataclass(frozen=True, kw_only=True)
class PlacedSlot:
    """One variant's slot: `devices` connected devices of node number `node` (from 0)."""

    variant: str
    node: int
    devices: int


@dataclass(frozen=True, kw_only=True)
class Placement:
    """All slots of an experiment, on nodes of `devices_per_node` devices."""

    slots: tuple[PlacedSlot, ...]
    devices_per_node: int

    @property
    def nodes(self) -> int:
        """Accelerator nodes needed."""
        return max(slot.node for slot in self.slots) + 1

    @property
    def slots_a_node(self) -> int:
        """Services that share a full node."""
        return self.devices_per_node // self.slots[0].devices

    def node_share(self, slot: PlacedSlot) -> float:
        """The part of a node that a slot holds, between 0 and 1."""
        return slot.devices / self.devices_per_node


def place(experiment: NeuronExperiment) -> Placement:
    """Fill node after node in file order.

    Legal slot sizes (1, 4, 8, 16) divide a node's devices, and all slots of an experiment are of
    one size, so filling in order leaves no gap and needs the fewest nodes.
    """
    devices, of_a_slot = experiment.accelerator.devices, experiment.serving.slot_devices
    slots = (
        PlacedSlot(variant=v.name, node=index * of_a_slot // devices, devices=of_a_slot)
        for index, v in enumerate(experiment.served_variants)
    )
    return Placement(devices_per_node=devices, slots=tuple(slots))
