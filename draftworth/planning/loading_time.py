"""How long checkpoints take over a link and onto the devices of a server, and a server to start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from draftworth.experiment.cluster import COMPILE_WAIT_MINUTES
from draftworth.experiment.variants import HubModel
from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds, exactly, total
from draftworth.planning.phases import Phase
from draftworth.planning.resolved import NeuronVariant
from draftworth.records.server_state import UNPROVEN_LIMIT_MINUTES

GBIT_PER_GIB = 8 * 2**30 / 1e9


def starting_phases(
    variant: NeuronVariant,
    assumed: Assumptions,
    *,
    is_compiled: bool,
    on_cpu: bool,
    after: str,
) -> Iterator[Phase]:
    """A compile where no graph is there, then a load.

    on_cpu: a CPU node compiles it before, where it does so in time.
    """
    if not is_compiled:
        minutes = compile_minutes(assumed, on_cpu=on_cpu)
        yield Phase(name=f"compile {variant.name}", minutes=minutes, after=(after,))
        after = f"compile {variant.name}"
    loading = load_minutes(variant, assumed)
    yield Phase(name=f"load {variant.name}", minutes=loading, after=(after,))


def compile_minutes(assumed: Assumptions, *, on_cpu: bool) -> Bounds:
    """Of a server that finds no proven graphs; on_cpu: a CPU node compiles them before.

    Nothing where what the CPU node made loads; else a start that rejects it, and a compile. A
    compile where it has made nothing in time.
    """
    minutes = assumed.bounds("compile_minutes")
    if not on_cpu or not compiled_in_time(assumed):
        return minutes
    words = f"0 where they load, else unproven start {UNPROVEN_LIMIT_MINUTES} + {minutes.how}"
    return Bounds(0.0, UNPROVEN_LIMIT_MINUTES + minutes.worst, (words,))


def cpu_compile_minutes(assumed: Assumptions) -> Bounds:
    """From the deploy to graphs in the bucket, or to the end of a CPU node's time for them."""
    taken, limit = _on_cpu_node(assumed), COMPILE_WAIT_MINUTES
    cut = f", at most {limit}" if taken.worst > limit else ""
    late = "" if compiled_in_time(assumed) else ": no graph is there by then"
    return Bounds(min(taken.best, limit), min(taken.worst, limit), (f"{taken.how}{cut}{late}",))


def compiled_in_time(assumed: Assumptions) -> bool:
    """Whether a CPU node has made a graph before the wait for it ends, at best."""
    return _on_cpu_node(assumed).best <= COMPILE_WAIT_MINUTES


def _on_cpu_node(assumed: Assumptions) -> Bounds:
    minutes = assumed.bounds
    node = minutes("scale_up_minutes") + minutes("node_start_minutes")
    compiling = minutes("compile_minutes") * minutes("cpu_compile_ratio")
    return node + minutes("image_pull_minutes") + compiling


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
