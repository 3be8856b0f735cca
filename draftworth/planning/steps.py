"""The steps that any course of a run is made of: nodes, transfers, compiling, loading.

Shared by this design's time line (`timeline`) and by what it is compared with
(`benchmarks/idle.py`), so that both take the same assumptions by the same arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import HubModel
from draftworth.planning.assumptions import Assumptions, Bound, Bounds
from draftworth.planning.phases import Phase
from draftworth.planning.resolved import NeuronVariant

GBIT_PER_GIB = 8 * 2**30 / 1e9

NODE_START = "node start"
IMAGE_PULL = "image pull"


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Checkpoints over one link, whose speed is the assumption named `speed`."""

    models: tuple[HubModel, ...]
    assumed: Assumptions
    speed: str

    def minutes(self, bound: Bound) -> float:
        """GiB x gigabits in one / Gbit/s / 60."""
        gib = sum(checkpoint_gib(model, self.assumed).at(bound) for model in self.models)
        return gib * GBIT_PER_GIB / self.assumed.named(self.speed).at(bound) / 60

    @property
    def words(self) -> str:
        """The same in numbers, for a reader."""
        sizes = [checkpoint_gib(model, self.assumed).text(digits=1) for model in self.models]
        gib = f"({' + '.join(sizes)})" if len(sizes) > 1 else sizes[0]
        speed = self.assumed.named(self.speed).bounds.text()
        return f"{gib} GiB x {GBIT_PER_GIB:.2f} / {self.speed} {speed} / 60"


def checkpoint_gib(model: HubModel, assumed: Assumptions) -> Bounds:
    """A checkpoint's size by the catalogue, else by assumption."""
    facts = catalog().models.get(model.model)
    if facts is None:
        return assumed.unknown_checkpoint_gib.bounds
    return Bounds(low=facts.checkpoint_gib, high=facts.checkpoint_gib)


def assumed_phase(
    name: str, assumed: Assumptions, assumption: str, *, after: tuple[str, ...] = ()
) -> Phase:
    """A phase that is an assumption and nothing else."""
    minutes = assumed.named(assumption).bounds
    return Phase(name=name, minutes=minutes, how=assumption, after=after)


def node_phases(assumed: Assumptions, *, after: tuple[str, ...]) -> tuple[Phase, ...]:
    """A new accelerator node until a container can start on it."""
    return (
        assumed_phase(NODE_START, assumed, "node_start_minutes", after=after),
        assumed_phase(IMAGE_PULL, assumed, "image_pull_minutes", after=(NODE_START,)),
    )


def transfer_phase(
    name: str, transfer: Transfer, *, plus: str = "", after: tuple[str, ...] = ()
) -> Phase:
    """A transfer; `plus` names an assumption, in minutes, that comes on top."""
    words = transfer.words
    if not plus:
        return Phase(name=name, minutes=Bounds.of(transfer.minutes), how=words, after=after)
    extra = transfer.assumed.named(plus)
    return Phase(
        name=name,
        minutes=Bounds.of(lambda bound: extra.at(bound) + transfer.minutes(bound)),
        how=f"{words} + {plus} {extra.bounds.text()}",
        after=after,
    )


def load_phase(variant: NeuronVariant, assumed: Assumptions, *, after: tuple[str, ...]) -> Phase:
    """A variant's weights onto its devices, then the engine's own warm-up."""
    models = tuple(variant.checkpoints.values())
    transfer = Transfer(models=models, assumed=assumed, speed="load_gbit_per_s")
    return transfer_phase(load_name(variant), transfer, plus="warm_up_minutes", after=after)


def compile_name(variant: NeuronVariant) -> str:
    """The name of a variant's compile phase."""
    return f"compile {variant.name}"


def load_name(variant: NeuronVariant) -> str:
    """The name of a variant's load phase."""
    return f"load {variant.name}"
