"""The experiment file's pydantic model: typed, strict, frozen.

Variants differ only in how they decode: a variant has no key for its own tensor parallel size,
image or batch limit, so it shares them with all variants. Users see the descriptions below in
messages about missing or wrong keys, and in their editors.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, field_validator

from draftworth.experiment.aws import Aws
from draftworth.experiment.catalog import NO_SPECULATION, Accelerator, Release, catalog
from draftworth.experiment.search_settings import HubSearch, LocalSearch, Place, Search
from draftworth.experiment.strict_model import SET_NAME, WORKED_OUT, Name, PositiveInt, StrictModel
from draftworth.experiment.variants import (
    AsShipped,
    Baseline,
    HubModel,
    HubVariant,
    LocalModel,
    LocalVariant,
    Speculative,
    Variant,
    variant_tag,
)
from draftworth.experiment.workload import Workload
from draftworth.records.load_shapes import Load

_COMMIT = re.compile(r"[0-9a-f]{40}")
# The limit exists because each repetition starts all servers again.
MAX_REPETITIONS = 16
Repetitions = Annotated[int, Field(ge=1, le=MAX_REPETITIONS)]
V = TypeVar("V", bound=Baseline | Speculative)


class Serving(StrictModel):
    """Engine settings that all variants share."""

    max_num_seqs: PositiveInt = WORKED_OUT
    """sequences decoded at once; left out: 4, or the highest workload.concurrency above 4"""
    max_model_len: PositiveInt = WORKED_OUT
    """most tokens of a prompt with its output; left out: the multiple of 1,024 that holds
    workload.input_tokens + workload.output_tokens"""
    tool_call_parser: Annotated[str, Field(pattern=SET_NAME, max_length=64)] | None = None
    """vLLM's name of the parser of the model's tool calls, e.g. hermes; for prompts with tools"""


class LocalServing(Serving):
    """Engine settings of a CPU rehearsal."""

    kv_cache_gib: PositiveInt = Field(default=1, description="memory for the KV cache, GiB")


class NeuronServing(Serving):
    """Engine settings on Neuron devices."""

    lnc: PositiveInt = 2
    """logical NeuronCore configuration: physical cores in one logical core"""
    slot_devices: PositiveInt = WORKED_OUT
    """connected Neuron devices that one server claims: 1, 4, 8 or 16; left out: half of a node's.
    The server's tensor parallel size is all their logical cores"""
    buckets: Literal["engine", "one"] = "engine"
    """lengths for which graphs are compiled. engine: the engine's choice, about eight per variant.
    one: one length for prompts and one for outputs, only with NxD Inference; a prompt that leaves
    less room than workload.output_tokens is then refused"""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Neuron engine settings for ALL variants; they replace those of the dialect"""


class ExperimentBase(StrictModel):
    """Keys of every experiment."""

    name: Name = Field(description="DNS name, a part of the names of stack, metrics and results")
    description: str = Field(default="", description="one line for people")
    release: str = Field(json_schema_extra={"enum": [*catalog().releases]})
    """an entry of the catalogue"""
    workload: Workload
    variants: tuple[Variant, ...] = Field(default=(), validate_default=True)
    search: Search | None = None
    rerun: PositiveInt = 1
    """raise it to measure an unchanged experiment once more"""
    repetitions: Repetitions = 1
    """how often the run starts all servers and measures; every second time variants have swapped
    slots"""
    control: bool = False
    """true: also measure the baseline against itself, to see differences without speculation"""

    @field_validator("variants", mode="before")
    @classmethod
    def _with_baseline(cls, variants: Any) -> Any:
        """Append a baseline if no given variant is one; the given variants keep their indices."""
        if not isinstance(variants, tuple) or "baseline" in map(variant_tag, variants):
            return variants
        return (*variants, {"method": NO_SPECULATION})

    @property
    def release_facts(self) -> Release:
        return catalog().releases[self.release]

    @property
    def served_variants(self) -> tuple[Variant, ...]:
        if self.search is None:
            return self.variants
        return (
            *self.variants,
            *(candidate for _, candidate in self.search.candidates(self.variants)),
        )

    def uses(self, method: str) -> bool:
        return any(variant.method == method for variant in self.served_variants)

    @property
    def changes_servers(self) -> bool:
        return self.repetitions > 1 or self.control or self.search is not None

    def max_tokens_per_step(self, variant: Variant) -> int:
        if variant.window is None:
            return 1
        return self.release_facts.methods[variant.method].max_tokens_per_step(variant.window)


class NeuronExperiment(ExperimentBase):
    """An experiment on nodes with Neuron devices."""

    target: HubModel = Field(description="the model whose decoding is measured")
    serving: NeuronServing = NeuronServing()
    variants: tuple[HubVariant, ...] = Field(default=(), validate_default=True)
    """one has method none, the baseline, which is added if the list has none; without a search
    there is another one"""
    search: HubSearch | None = None
    """drafts and windows to try one after another, in one slot beside the baseline's"""
    baseline_as_shipped: bool = False
    """true: one more variant without speculation, with the engine's own defaults; needs a slot"""
    repetitions: Repetitions = 2
    """how often the run starts all servers and measures; every second time variants have swapped
    slots; with a search the default is 1, and no more is allowed"""
    aws: Aws

    @property
    def served_variants(self) -> tuple[Variant, ...]:
        variants = super().served_variants
        return (*variants, AsShipped()) if self.baseline_as_shipped else variants

    @property
    def models(self) -> tuple[HubModel, ...]:
        drafts = (variant.hub_draft for variant in self.served_variants)
        models = filter(None, (self.target, *drafts))
        return tuple({model.storage_prefix: model for model in models}.values())

    @property
    def gated_models(self) -> tuple[str, ...]:
        return tuple(m.model for m in self.models if m.facts and m.facts.gated)

    @property
    def unpinned_models(self) -> tuple[str, ...]:
        """`MODEL@REVISION` of every model whose revision is a branch or a tag, which can move."""
        moving = (m for m in self.models if not _COMMIT.fullmatch(m.revision))
        return tuple(f"{m.model}@{m.revision}" for m in moving)

    @property
    def image(self) -> str:
        """The release's serving image, `NAME:TAG`, or `NAME:TAG@DIGEST` if a digest is pinned."""
        image = self.release_facts.image
        assert image is not None, "the loader admits only Neuron releases here"
        digest = self.aws.pins.serving_image_digest
        return f"{image}@{digest}" if digest else image

    @property
    def instance_type(self) -> str:
        return self.aws.instance_type

    @property
    def accelerator(self) -> Accelerator:
        return catalog().instances[self.instance_type]

    @property
    def tensor_parallel_size(self) -> int:
        """The number of logical NeuronCores of a server's devices.

        vLLM gets it as tensor parallel size; a smaller size would leave some cores idle.
        """
        serving = self.serving
        return self.accelerator.logical_cores(devices=serving.slot_devices, lnc=serving.lnc)


class LocalExperiment(ExperimentBase):
    """An experiment with engines on this machine: the rehearsal."""

    target: LocalModel = Field(description="the model whose decoding is measured")
    serving: LocalServing = LocalServing()
    variants: tuple[LocalVariant, ...] = Field(default=(), validate_default=True)
    """one has method none, the baseline, which is added if the list has none; without a search
    there is another one"""
    search: LocalSearch | None = None
    """drafts and windows to try one after another, on one server beside the baseline's"""


Experiment = NeuronExperiment | LocalExperiment


def placed_variants(experiment: Experiment) -> Iterator[tuple[Place, Variant]]:
    """Yield each variant with its place in the experiment file, which messages about it name.

    The listed variants come first, then the candidates of the search.
    """
    for index, variant in enumerate(experiment.variants):
        yield Place(whole=("variants", index)), variant
    if experiment.search:
        yield from experiment.search.candidates(experiment.variants)


def variants_of(experiment: Experiment, kind: type[V]) -> Iterator[tuple[Place, V]]:
    """Yield (place in the file, variant) for each variant that is an instance of `kind`."""
    for place, variant in placed_variants(experiment):
        if isinstance(variant, kind):
            yield place, variant


def loads_of(experiment: Experiment) -> tuple[Load, ...]:
    """Return the loads at which every variant is measured, in the order of measuring."""
    return experiment.workload.loads(experiment.serving.max_num_seqs)


def beside(experiment_path: Path, relative: str) -> Path:
    """Return the absolute path of `relative`, a path relative to the experiment file's folder."""
    # Not Path.resolve(), which raises for a symbolic link to itself.
    return Path(os.path.realpath(experiment_path.parent / relative))
