"""How long checkpoints take over a link and onto the devices of a server, and a server to start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from draftworth.experiment.variants import HubModel
from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds, exactly, total
from draftworth.planning.phases import Phase
from draftworth.planning.resolved import NeuronVariant

GBIT_PER_GIB = 8 * 2**30 / 1e9


def starting_phases(
    variant: NeuronVariant, assumed: Assumptions, *, is_compiled: bool, after: str
) -> Iterator[Phase]:
    """A compile where no graph is there, then a load."""
    if not is_compiled:
        minutes = assumed.bounds("compile_minutes")
        yield Phase(name=f"compile {variant.name}", minutes=minutes, after=(after,))
        after = f"compile {variant.name}"
    loading = load_minutes(variant, assumed)
    yield Phase(name=f"load {variant.name}", minutes=loading, after=(after,))


def load_minutes(variant: NeuronVariant, assumed: Assumptions) -> Bounds:
    """A variant's weights onto its devices, then the engine's own warm-up."""
    loading = transfer_minutes(variant.checkpoints.values(), assumed, "load_gbit_per_s")
    return loading + assumed.bounds("warm_up_minutes")


def transfer_minutes(models: Iterable[HubModel], assumed: Assumptions, speed: str) -> Bounds:
    """Checkpoints over one link, whose speed is the assumption of that name."""
    gib = total([_checkpoint_gib(model, assumed) for model in models])
    return gib * exactly(GBIT_PER_GIB, f"{GBIT_PER_GIB:.2f}") / assumed.bounds(speed) / 60


def _checkpoint_gib(model: HubModel, assumed: Assumptions) -> Bounds:
    """A checkpoint's size by the catalogue, else by assumption."""
    size = model.facts and model.facts.checkpoint_gib
    return exactly(size, f"{size:.1f} GiB") if size else assumed.bounds("unknown_checkpoint_gib")
