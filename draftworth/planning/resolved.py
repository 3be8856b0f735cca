"""Computes once what follows from an experiment: devices, commands, artifact keys, candidates."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from draftworth.errors import UserInputError
from draftworth.experiment.aws import Price as NodePrice
from draftworth.experiment.catalog import catalog
from draftworth.experiment.loading import LoadedExperiment, load_experiment
from draftworth.experiment.model import LocalExperiment, NeuronExperiment, loads_of
from draftworth.experiment.naming import Names
from draftworth.experiment.placement import PlacedSlot, Placement, place
from draftworth.experiment.variants import HubModel, Variant
from draftworth.records.load_shapes import Load
from draftworth.records.results import Price
from draftworth.records.search_result import Candidate, Search
from draftworth.searching.candidate_count import Extent, extent
from draftworth.searching.next_candidate import first_candidate
from draftworth.serving import dialects
from draftworth.serving.server_command import ServingCommand

# (lowest, highest) time that each drafted token is assumed to add to a step, divided by the time of
# a baseline step, for a drafting method without published figures.
_UNKNOWN_STEP_COST = (0.0, 0.5)


@dataclass(frozen=True, kw_only=True)
class ResolvedVariant:
    """A variant, with the most output tokens that one of its steps can yield (baseline: 1)."""

    spec: Variant
    max_tokens_per_step: int

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def draft(self) -> str | None:
        return self.spec.draft_id_or_path

    @property
    def is_baseline(self) -> bool:
        return self.spec.is_baseline

    @property
    def speculates(self) -> bool:
        return self.spec.window is not None


@dataclass(frozen=True, kw_only=True)
class NeuronVariant(ResolvedVariant):
    """A variant on Neuron devices: where its server runs, with which command, models and graph.

    slots: the slots (groups of devices) of its server. The server starts in the first one. There is
        a second one if two variants swap their slots during the run, or, for the baseline, if a
        control (a second baseline server) runs there.
    checkpoints: the models that the variant's server loads, by role (`target`, `draft`).
    artifact_inputs: all that changes the compiled graph; the artifact key is a hash of it.
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
        return dialects.artifact_key(self.artifact_inputs)


@dataclass(frozen=True, kw_only=True)
class ResolvedExperiment(LoadedExperiment):
    """An experiment (on AWS or local), its loads, and its variants with a search's candidates."""

    loads: tuple[Load, ...]
    variants: tuple[ResolvedVariant, ...]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def price(self) -> Price | None:
        """The price of the nodes; None if nothing is rented."""
        return None

    @property
    def reading_precision(self) -> str:
        """The number format in which `estimate` runs models; "auto": that of their checkpoints."""
        return "auto"

    @cached_property
    def search(self) -> Search | None:
        """The run's search, as the measuring Job gets it; None without a search.

        Its candidates are all speculative variants: those that the search adds, and those that the
        experiment file lists by hand (`Candidate.is_asked_for`).
        """
        spec = self.spec
        if spec.search is None:
            return None
        facts, stop = catalog().methods[spec.search.method], spec.search.stop
        drafting = [(v, v.window) for v in spec.served_variants if v.window is not None]
        return Search(
            candidates=tuple(
                Candidate(
                    variant=variant.name,
                    draft=variant.draft_id_or_path or variant.method,
                    draft_size=_gib(variant) / _gib(drafting[0][0]),
                    window=window,
                    checked=spec.max_tokens_per_step(variant) - 1,
                    is_asked_for=variant in spec.variants,
                )
                for variant, window in drafting
            ),
            drafts_read_text=not facts.refuses_estimate,
            step_cost_per_draft=facts.step_cost_per_draft or _UNKNOWN_STEP_COST,
            forecast=self.forecast,
            within=stop.within_percent / 100,
            hours=stop.last_start_hours,
            usd=stop.last_start_usd,
            tokens_per_day=stop.tokens_per_day,
            days=stop.days,
        )

    @cached_property
    def first_candidate(self) -> ResolvedVariant | None:
        if self.search is None:
            return None
        first = first_candidate(self.search.candidates).variant
        return next(variant for variant in self.variants if variant.name == first)

    @cached_property
    def extent(self) -> Extent | None:
        return extent(self.search, reads_outputs=self.reads_outputs) if self.search else None

    @property
    def reads_outputs(self) -> bool:
        """Whether a search runs drafts over the baseline's outputs to predict tokens per step."""
        return False

    def starts_up(self, variant: ResolvedVariant) -> bool:
        first = self.first_candidate
        return first is None or variant.is_baseline or variant.name == first.name


@dataclass(frozen=True, kw_only=True)
class ResolvedLocal(ResolvedExperiment):
    """An experiment with engines on this machine."""

    spec: LocalExperiment

    @property
    def reads_outputs(self) -> bool:
        """Whether a search runs draft models over the baseline's outputs: if these are greedy.

        For sampled outputs it cannot be computed which drafted tokens the target accepts.
        """
        return self.spec.workload.temperature == 0

    @property
    def reading_precision(self) -> str:
        """The number format in which the local engine runs models (`serving/vllm_cpu.py`)."""
        return "float32"


@dataclass(frozen=True, kw_only=True)
class ResolvedNeuron(ResolvedExperiment):
    """An experiment on accelerator nodes, with its placement and the names of its resources."""

    spec: NeuronExperiment
    variants: tuple[NeuronVariant, ...]
    names: Names
    placement: Placement

    @property
    def baseline(self) -> NeuronVariant:
        return next(variant for variant in self.variants if variant.is_baseline)

    @property
    def canaries(self) -> tuple[NeuronVariant, ...]:
        """Variants whose server is tried on a CPU node before any accelerator node exists.

        In a search only one variant of each draft is tried, preferably the one that is measured
        first: candidates of one draft differ only in the window, and CPU nodes have no room for
        the pods of, say, 27 candidates.
        """
        if self.spec.search is None:
            return self.variants
        soonest = sorted(self.variants, key=lambda variant: not self.starts_up(variant))
        tried = {variant.draft: variant for variant in reversed(soonest)}
        return tuple(variant for variant in self.variants if variant in tried.values())

    @property
    def price(self) -> Price | None:
        """A node's dated price, and each variant's share of a node; None if no price is known."""
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
        if self.spec.aws.price is None:
            raise UserInputError(
                f"{self.path}: aws.price is left out and none has been looked up; next: "
                f"draftworth price {self.path}"
            )
        return self.spec.aws.price

    @property
    def usd_per_hour(self) -> float:
        return self.placement.nodes * self.node_price.usd_per_hour


def load(path: Path) -> ResolvedNeuron | ResolvedLocal:
    """Read, check and resolve an experiment file; raise UserInputError for a wrong one."""
    return resolve(load_experiment(path))


def load_neuron(path: Path) -> ResolvedNeuron:
    """Read an experiment that runs on AWS; raise UserInputError for a wrong or a local one."""
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
    """Return a checked experiment with the values that are derived from its file.

    These are the loads, and how many tokens a step of each variant can yield. If the experiment
    runs on accelerator nodes, these are also the servers' commands, their placement on nodes and
    the names of resources.
    """
    spec, loads = loaded.spec, loads_of(loaded.spec)
    if isinstance(spec, LocalExperiment):
        local = tuple(
            ResolvedVariant(spec=variant, max_tokens_per_step=spec.max_tokens_per_step(variant))
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
    if variant.hub_draft:
        checkpoints["draft"] = variant.hub_draft
    return NeuronVariant(
        spec=variant,
        max_tokens_per_step=spec.max_tokens_per_step(variant),
        slots=slots,
        command=dialects.serving_command(spec, variant),
        checkpoints=checkpoints,
        artifact_inputs=dialects.artifact_inputs(spec, variant),
    )


def _gib(variant: Variant) -> float:
    """Return the size of a variant's draft in GiB (its checkpoint); 1 if the size is not known."""
    facts = variant.hub_draft.facts if variant.hub_draft else None
    return facts.checkpoint_gib if facts and facts.checkpoint_gib else 1.0
