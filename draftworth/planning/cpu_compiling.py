"""Which graphs are compiled on CPU nodes before an accelerator node exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron

# CloudFormation takes 1 MB of one template: so many compile Jobs, where a variant by itself, its
# server and its role, is as large as two (tests/stacks/test_every_stack.py).
_TEMPLATE_ROOM_JOBS = 78


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
    """Each graph once, the certain ones first; none where servers compile by themselves.

    So many as the stack's template has room for: what is left out, the largest windows of a search,
    is compiled by its server.
    """
    found: dict[str, GraphToCompile] = {}
    for graph in sorted(_graphs(experiment), key=_turn):
        found.setdefault(graph.key, graph)
    room = max(0, _TEMPLATE_ROOM_JOBS - 2 * len(experiment.variants))
    return tuple(found.values())[:room]


def compiles_on_cpu(experiment: ResolvedNeuron, variant: NeuronVariant) -> bool:
    """Whether this variant's graph comes from a CPU node, where all goes well."""
    return variant.artifact_key in {graph.key for graph in graphs_to_compile(experiment)}


def compiled_where(
    experiment: ResolvedNeuron, where: Literal["accelerator", "cpu_nodes"]
) -> ResolvedNeuron:
    """The same experiment with another `aws.compile_where`; its graphs are the same."""
    aws = experiment.spec.aws.model_copy(update={"compile_where": where})
    return replace(experiment, spec=experiment.spec.model_copy(update={"aws": aws}))


def _turn(graph: GraphToCompile) -> tuple[bool, int]:
    """Large windows last: they are the least likely to pay."""
    return not graph.certain, graph.variant.max_tokens_per_step


def _graphs(experiment: ResolvedNeuron) -> Iterator[GraphToCompile]:
    way = experiment.spec.release_facts.cpu_compile
    if way is None or experiment.spec.aws.compile_where != "cpu_nodes":
        return
    extent = experiment.extent
    others = {candidate.variant for candidate in extent.others} if extent else set()
    for variant in experiment.variants:
        if variant.spec.method in way.methods:
            yield GraphToCompile(variant=variant, certain=variant.name not in others)
