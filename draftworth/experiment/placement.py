"""Decides which devices of which node each variant's server gets, and how many nodes that needs.

A slot is the set of connected devices that one server claims.
"""

from dataclasses import dataclass

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant


@dataclass(frozen=True, kw_only=True)
class PlacedSlot:
    """One variant's slot: `devices` connected devices of node number `node` (from 0).

    number: the slot's number over all nodes, from 0.
    is_home: whether the variant starts in this slot (and stays in it, unless servers swap slots);
        False for a variant's second slot, and for the slot that the candidates of a search share.
    """

    variant: str
    number: int
    node: int
    devices: int
    is_home: bool = True


@dataclass(frozen=True, kw_only=True)
class Placement:
    """All slots of an experiment, on nodes of `devices_per_node` devices.

    slots: each variant's first or only slot, in the order of the file.
    second_slots: with several repetitions, the slot that each variant swaps to; with one repetition
        and a control (the baseline measured against itself), the slot of a second baseline server;
        else empty.
    """

    slots: tuple[PlacedSlot, ...]
    second_slots: tuple[PlacedSlot, ...] = ()
    devices_per_node: int

    @property
    def nodes(self) -> int:
        return max(slot.node for slot in self.slots) + 1

    @property
    def held(self) -> int:
        return max(slot.number for slot in self.slots) + 1

    @property
    def slots_per_node(self) -> int:
        return self.devices_per_node // self.slots[0].devices

    def node_share(self, slot: PlacedSlot) -> float:
        return slot.devices / self.devices_per_node

    def of(self, variant: str) -> tuple[PlacedSlot, ...]:
        return tuple(s for s in (*self.slots, *self.second_slots) if s.variant == variant)

    def place(self, slot: PlacedSlot) -> int:
        """Return the place of a slot: its number among the slots of its node, from 0.

        The number of the node is left out, because a Kubernetes resource claim is made from the
        place. The claim selects devices of a node; the scheduler chooses one of the equal nodes.
        """
        return slot.number % self.slots_per_node

    def corner_devices(self) -> tuple[int, ...]:
        """Return the number (`deviceId`) of one device of each slot of a node.

        A claim that must not get the other slots' devices of this list can only get the slot that
        is left. The 16 devices of a node form a square of four rows: 0 to 3, 4 to 7, and so on. A
        driver may make the slots of whole rows or of whole columns. So the numbers are those of
        devices in different rows and in different columns. If a node has two slots, they are 0 and
        15, two opposite corners; if it has four, they are 0, 5, 10 and 15, the diagonal.
        """
        places, devices = self.slots_per_node, self.slots[0].devices
        return tuple(n * devices + n * (devices - 1) // max(1, places - 1) for n in range(places))


def place(experiment: NeuronExperiment) -> Placement:
    """Place the slots of all variants, node after node, in the order of the file.

    Legal slot sizes (1, 4, 8, 16 devices) divide a node's devices, and all slots of an experiment
    have one size, so filling in order leaves no gap and needs the fewest nodes.

    With several repetitions each variant gets the next variant's slot as its second one, and the
    last variant gets the first one's (two variants thus swap slots). With one repetition and a
    control (the baseline measured against itself), only the baseline gets a second slot. With a
    search the baseline stays in the first slot, and all other variants use the second slot one
    after another.
    """
    variants, devices = experiment.served_variants, experiment.accelerator.devices
    size = experiment.serving.slot_devices

    def slot(variant: Variant, number: int, *, is_home: bool = True) -> PlacedSlot:
        node, name = number * size // devices, variant.name
        return PlacedSlot(variant=name, number=number, node=node, devices=size, is_home=is_home)

    if experiment.search:
        slots = tuple(slot(v, int(not v.is_baseline), is_home=v.is_baseline) for v in variants)
        return Placement(devices_per_node=devices, slots=slots)
    return Placement(
        devices_per_node=devices,
        slots=tuple(slot(variant, number) for number, variant in enumerate(variants)),
        second_slots=tuple(
            slot(variant, (number + 1) % len(variants), is_home=False)
            for number, variant in enumerate(variants)
            if experiment.repetitions > 1 or (experiment.control and variant.is_baseline)
        ),
    )
