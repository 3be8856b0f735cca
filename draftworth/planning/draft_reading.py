"""Which drafts of a search read the baseline's outputs on a CPU node, and what that takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from draftworth.experiment.aws import CPU_INSTANCE_MEMORY_GIB, CPU_NODE_SYSTEM_GIB
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.readings import reading_memory_gib
from draftworth.records.search import drafts_can_tell

ROOM_GIB = CPU_INSTANCE_MEMORY_GIB - CPU_NODE_SYSTEM_GIB


@dataclass(frozen=True, kw_only=True)
class DraftReading:
    """models: those that fit a CPU node, or may: of some nobody has looked up the size.
    too_large: the others. memory_gib: of the largest."""

    models: tuple[HubModel, ...]
    too_large: tuple[HubModel, ...]
    memory_gib: int


def draft_reading(experiment: ResolvedNeuron) -> DraftReading:
    """Nothing reads where there is no search, or drafts could tell nothing."""
    search, temperature = experiment.search, experiment.spec.workload.temperature
    if search is None or not drafts_can_tell(search, experiment.loads, temperature):
        return DraftReading(models=(), too_large=(), memory_gib=0)
    drafts = {
        variant.checkpoints["draft"].model: variant.checkpoints["draft"]
        for variant in experiment.variants
        if "draft" in variant.checkpoints
    }
    needed_gib = {name: _needed_gib(model) for name, model in drafts.items()}
    return DraftReading(
        models=tuple(m for name, m in drafts.items() if needed_gib[name] <= ROOM_GIB),
        too_large=tuple(m for name, m in drafts.items() if needed_gib[name] > ROOM_GIB),
        memory_gib=max((n for n in needed_gib.values() if n <= ROOM_GIB), default=0),
    )


def _needed_gib(model: HubModel) -> int:
    """Of an unknown size all that there is: the pass itself refuses a draft that is too large."""
    size = model.facts and model.facts.checkpoint_gib
    return math.ceil(reading_memory_gib(size)) if size else ROOM_GIB


def unread_drafts(experiment: ResolvedNeuron) -> Iterator[str]:
    """A note for each draft that does not fit."""
    for model in draft_reading(experiment).too_large:
        yield (
            f"{model.model} does not read the baseline's outputs: with {_needed_gib(model)} GiB of "
            f"memory it does not fit into the {ROOM_GIB} GiB of a CPU node; the search predicts "
            "its candidates by what measured ones yield"
        )
