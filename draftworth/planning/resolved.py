"""An experiment with everything that follows from it, computed once.

Charts, stacks, planning, rehearsal and the account's commands receive it, and do not compute a
placement, an artifact key or a price again.
"""

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
    """A variant and its facts on any release.

    draft: the hub id or the folder of its draft, None for the baseline.
    max_tokens_per_step: how many output tokens one step can yield at most, 1 for the baseline.
    """

    spec: Variant
    draft: str | None
    max_tokens_per_step: int

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_baseline(self) -> bool:
        """Whether the other variants are compared with it."""
        return isinstance(self.spec, Baseline)

    @property
    def speculates(self) -> bool:
        return isinstance(self.spec, Speculative)


@dataclass(frozen=True, kw_only=True)
class NeuronVariant(ResolvedVariant):
    """A variant on Neuron devices: its slots, its server's command, its compiled graph's address.

    slots: the slot that it holds or shares with other candidates, and a second one if servers swap
    slots.
    checkpoints: the models that its server loads, by role (`target`, `draft`).
    artifact_inputs: everything that changes its compiled graph.
    """

    slots: tuple[PlacedSlot, ...]
    command: ServingCommand
    checkpoints: Mapping[str, HubModel]
    artifact_inputs: Mapping[str, Any]

    @property
    def slot(self) -> PlacedSlot:
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
        return self.spec.name

    @property
    def price(self) -> Price | None:
        """The price of its slots; None if nothing is rented."""
        return None

    @cached_property
    def search(self) -> Search | None:
        """The search of the measuring Job; None: every variant is measured."""
        return search_of(self.spec, self.forecast)

    @cached_property
    def first_candidate(self) -> ResolvedVariant | None:
        """The variant that a search measures first; None without a search."""
        if self.search is None:
            return None
        first = first_candidate(self.search.candidates).variant
        return next(variant for variant in self.variants if variant.name == first)

    @cached_property
    def extent(self) -> Extent | None:
        """The number of candidates that a search measures; None without a search."""
        return extent(self.search, reads_outputs=self.reads_outputs) if self.search else None

    @property
    def reads_outputs(self) -> bool:
        """Whether the drafts of a search read the baseline's outputs while the run lasts."""
        return False

    def starts_up(self, variant: ResolvedVariant) -> bool:
        """Tell whether its server runs from the start; other candidates start later."""
        first = self.first_candidate
        return first is None or variant.is_baseline or variant.name == first.name


@dataclass(frozen=True, kw_only=True)
class ResolvedLocal(ResolvedExperiment):
    """An experiment with engines on this machine."""

    spec: LocalExperiment

    @property
    def reads_outputs(self) -> bool:
        """True for greedy outputs: a pass of a draft does not show the steps of sampled ones."""
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
    def canaries(self) -> tuple[NeuronVariant, ...]:
        """Variants that are tried on a CPU node before any accelerator node exists.

        A search tries one variant of each draft, preferably the one that is measured first:
        candidates of one draft differ in the window alone, and CPU nodes have no room for 27 pods
        with their mounts.
        """
        if self.spec.search is None:
            return self.variants
        soonest = sorted(self.variants, key=lambda variant: not self.starts_up(variant))
        tried = {variant.draft: variant for variant in reversed(soonest)}
        return tuple(variant for variant in self.variants if variant in tried.values())

    @property
    def price(self) -> Price | None:
        """A node's dated price, and each variant's share of a node; None if not known."""
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
        """The price of a node; raises UserInputError if it is not known."""
        if self.spec.aws.price is None:
            raise UserInputError(
                f"{self.path}: aws.price is left out and none has been looked up; next: "
                f"python -m draftworth price {self.path}"
            )
        return self.spec.aws.price

    @property
    def usd_per_hour(self) -> float:
        """The price of all nodes together; raises UserInputError without a price."""
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
    """Compute everything that follows from a checked experiment."""
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
