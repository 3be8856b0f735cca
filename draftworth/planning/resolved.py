"""An experiment with all that follows from it, worked out once.

Charts, stacks, planning, rehearsal and the account's commands are given it: nobody computes a
placement, an artifact key or a price again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from draftworth.errors import UserInputError
from draftworth.experiment.aws import Price as NodePrice
from draftworth.experiment.loading import LoadedExperiment, load_experiment
from draftworth.experiment.model import LocalExperiment, NeuronExperiment, loads_of
from draftworth.experiment.naming import Names
from draftworth.experiment.placement import PlacedSlot, Placement, place
from draftworth.experiment.variants import (
    Baseline,
    HubModel,
    HubSpeculative,
    LocalSpeculative,
    Speculative,
    Variant,
)
from draftworth.planning.search import search_of
from draftworth.records.load import Load
from draftworth.records.results import Price
from draftworth.records.search import Search
from draftworth.searching.extent import Extent, extent
from draftworth.searching.step_costs import first_candidate
from draftworth.serving.artifacts import artifact_inputs, artifact_key
from draftworth.serving.command import ModelPaths, ServingCommand
from draftworth.serving.dialects import serving_command


@dataclass(frozen=True, kw_only=True)
class ResolvedVariant:
    """A variant and what follows from it on any release.

    draft: the hub id or the folder of its draft, None for the baseline.
    max_tokens_per_step: how many output tokens one step can yield at most, 1 for the baseline.
    """

    spec: Variant
    draft: str | None
    max_tokens_per_step: int

    @property
    def name(self) -> str:
        """The name in the experiment file."""
        return self.spec.name

    @property
    def is_baseline(self) -> bool:
        """Whether the other variants are compared with it."""
        return isinstance(self.spec, Baseline)

    @property
    def speculates(self) -> bool:
        """Whether it has a draft."""
        return isinstance(self.spec, Speculative)


@dataclass(frozen=True, kw_only=True)
class NeuronVariant(ResolvedVariant):
    """A variant on Neuron devices: its slots, its server's command, its compiled graph's address.

    slots: the slot that it holds or takes in turn with other candidates, and a second one where
    servers swap slots.
    checkpoints: the models that its server loads, by role (`target`, `draft`).
    artifact_inputs: everything that changes its compiled graph.
    """

    slots: tuple[PlacedSlot, ...]
    command: ServingCommand
    checkpoints: Mapping[str, HubModel]
    artifact_inputs: Mapping[str, Any]

    @property
    def slot(self) -> PlacedSlot:
        """The first of its slots."""
        return self.slots[0]

    @cached_property
    def artifact_key(self) -> str:
        """The address of its compiled graph."""
        return artifact_key(self.artifact_inputs)


@dataclass(frozen=True, kw_only=True)
class ResolvedExperiment(LoadedExperiment):
    """An experiment of any kind, with its loads and its variants."""

    loads: tuple[Load, ...]
    variants: tuple[ResolvedVariant, ...]

    @property
    def name(self) -> str:
        """The name in the experiment file."""
        return self.spec.name

    @property
    def price(self) -> Price | None:
        """What its slots cost; None: nothing is rented."""
        return None

    @property
    def search(self) -> Search | None:
        """The search that the measuring Job does; None: every variant is measured."""
        return search_of(self.spec, self.forecast)

    @property
    def first_candidate(self) -> ResolvedVariant | None:
        """Which variant a search measures first; None: there is no search."""
        if self.search is None:
            return None
        first = first_candidate(self.search.candidates).variant
        return next(variant for variant in self.variants if variant.name == first)

    @property
    def extent(self) -> Extent | None:
        """How many candidates a search measures; None: there is no search."""
        return extent(self.search, reads_outputs=self.reads_outputs) if self.search else None

    @property
    def reads_outputs(self) -> bool:
        """Whether the drafts of a search read the baseline's outputs while the run lasts."""
        return False

    def starts_up(self, variant: ResolvedVariant) -> bool:
        """Whether its server runs from the start; further candidates of a search start later."""
        first = self.first_candidate
        return first is None or variant.is_baseline or variant.name == first.name


@dataclass(frozen=True, kw_only=True)
class ResolvedLocal(ResolvedExperiment):
    """An experiment with engines on this machine."""

    spec: LocalExperiment

    @property
    def reads_outputs(self) -> bool:
        """A rehearsal lets them read; of sampled outputs no pass of a draft shows the steps."""
        return self.spec.workload.temperature == 0


@dataclass(frozen=True, kw_only=True)
class ResolvedNeuron(ResolvedExperiment):
    """An experiment on accelerator nodes, with its placement and the names of its resources."""

    spec: NeuronExperiment
    variants: tuple[NeuronVariant, ...]
    names: Names
    placement: Placement

    @property
    def baseline(self) -> NeuronVariant:
        """The variant that the others are compared with."""
        return next(variant for variant in self.variants if variant.is_baseline)

    @property
    def in_block(self) -> bool:
        """Whether its nodes are of a Capacity Block, which is paid in advance, used or not."""
        return self.spec.aws.capacity.kind == "capacity_block"

    @property
    def canaries(self) -> tuple[NeuronVariant, ...]:
        """Variants that are tried on a CPU node before any accelerator node is there.

        These are all variants; in a search one of each draft, preferably the one that is measured
        first: candidates of one draft differ in the window alone, and CPU nodes have no room for
        the pods and mounts of 27.
        """
        if self.spec.search is None:
            return self.variants
        soonest = sorted(self.variants, key=lambda variant: not self.starts_up(variant))
        tried = {variant.draft: variant for variant in reversed(soonest)}
        return tuple(variant for variant in self.variants if variant in tried.values())

    @property
    def price(self) -> Price | None:
        """A node's dated price, and each variant's share of a node; None: no price is known."""
        stated = self.spec.aws.price
        if stated is None:
            return None
        return Price(
            usd_per_node_hour=stated.usd_per_hour,
            as_of=stated.as_of.isoformat(),
            source=stated.source,
            node_shares={v.name: self.placement.node_share(v.slot) for v in self.variants},
            nodes=self.placement.nodes,
        )

    @property
    def node_price(self) -> NodePrice:
        """What a node costs.

        Raises:
            UserInputError: the experiment leaves it out, and none was looked up.
        """
        if self.spec.aws.price is None:
            raise UserInputError(
                f"{self.path}: aws.price is left out and none has been looked up; next: "
                f"python -m draftworth price {self.path}"
            )
        return self.spec.aws.price

    @property
    def usd_per_hour(self) -> float:
        """What all nodes cost together; raises UserInputError without a price."""
        return self.placement.nodes * self.node_price.usd_per_hour


def load(path: Path) -> ResolvedNeuron | ResolvedLocal:
    """Read, check and resolve an experiment file.

    Raises:
        UserInputError: it cannot be read, or is wrong.
    """
    return resolve(load_experiment(path))


def load_neuron(path: Path) -> ResolvedNeuron:
    """Read, check and resolve an experiment that runs on AWS.

    Raises:
        UserInputError: the file is wrong, or its experiment is a local one.
    """
    experiment = load(path)
    if isinstance(experiment, ResolvedNeuron):
        return experiment
    raise UserInputError(
        f"{path}: release\n"
        f"    given:   {experiment.spec.release}, which runs on this machine\n"
        "    allowed: a release for Neuron devices, as in experiments/qwen3-32b.yaml\n"
        "    because: a local experiment has nothing to deploy, no Kubernetes objects and "
        "nothing in an AWS account; `make rehearse` runs it"
    )


def resolve(loaded: LoadedExperiment) -> ResolvedNeuron | ResolvedLocal:
    """Work out what follows from a checked experiment."""
    spec, loads = loaded.spec, loads_of(loaded.spec)
    if isinstance(spec, LocalExperiment):
        local = tuple(
            ResolvedVariant(
                spec=variant,
                draft=variant.draft.path if isinstance(variant, LocalSpeculative) else None,
                max_tokens_per_step=spec.max_tokens_per_step(variant),
            )
            for variant in spec.served_variants
        )
        return ResolvedLocal(**vars(loaded), loads=loads, variants=local)
    placement = place(spec)
    return ResolvedNeuron(
        **vars(loaded),
        loads=loads,
        variants=tuple(
            _neuron_variant(spec, variant, placement.of(variant.name))
            for variant in spec.served_variants
        ),
        names=Names(experiment=spec.name),
        placement=placement,
    )


def _neuron_variant(
    spec: NeuronExperiment, variant: Variant, slots: tuple[PlacedSlot, ...]
) -> NeuronVariant:
    checkpoints = {"target": spec.target}
    if isinstance(variant, HubSpeculative):
        checkpoints["draft"] = variant.draft
    return NeuronVariant(
        spec=variant,
        draft=checkpoints["draft"].model if "draft" in checkpoints else None,
        max_tokens_per_step=spec.max_tokens_per_step(variant),
        slots=slots,
        command=serving_command(spec, variant, ModelPaths()),
        checkpoints=checkpoints,
        artifact_inputs=artifact_inputs(spec, variant),
    )
