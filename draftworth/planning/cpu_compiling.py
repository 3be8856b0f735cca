"""Which graphs are compiled on CPU nodes before an accelerator node exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron


@dataclass(frozen=True, kw_only=True)
class GraphToCompile:
    """One graph, by the first of the variants that have it.

    certain: the run measures it whatever is found; the others of a search wait until they are
        likely to be measured.
    """

    variant: NeuronVariant
    certain: bool

    @property
    def key(self) -> str:
        """The artifact key."""
        return self.variant.artifact_key


def graphs_to_compile(experiment: ResolvedNeuron) -> tuple[GraphToCompile, ...]:
    """Each graph once, the certain ones first; none where servers compile by themselves."""
    found: dict[str, GraphToCompile] = {}
    for graph in sorted(_graphs(experiment), key=lambda graph: not graph.certain):
        found.setdefault(graph.key, graph)
    return tuple(found.values())


def compiles_on_cpu(experiment: ResolvedNeuron, variant: NeuronVariant) -> bool:
    """Whether this variant's graph comes from a CPU node, where all goes well."""
    way = experiment.spec.release_facts.cpu_compile
    asked_for = experiment.spec.aws.compile_where == "cpu_nodes"
    return asked_for and way is not None and variant.spec.method in way.methods


def compiled_where(
    experiment: ResolvedNeuron, where: Literal["accelerator", "cpu_nodes"]
) -> ResolvedNeuron:
    """The same experiment with another `aws.compile_where`; its graphs are the same."""
    aws = experiment.spec.aws.model_copy(update={"compile_where": where})
    return replace(experiment, spec=experiment.spec.model_copy(update={"aws": aws}))


def _graphs(experiment: ResolvedNeuron) -> Iterator[GraphToCompile]:
    extent = experiment.extent
    others = {candidate.variant for candidate in extent.others} if extent else set()
    for variant in experiment.variants:
        if compiles_on_cpu(experiment, variant):
            yield GraphToCompile(variant=variant, certain=variant.name not in others)
