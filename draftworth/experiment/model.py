"""The experiment file's shape: typed, strict, frozen.

An experiment is one target model, one serving configuration, a workload, and two or more variants
that differ in how decoding is done: by hand, or those that a search expands to. All that is not in
a variant is shared by construction: a variant has nowhere to put another tensor parallel size,
image or batch limit.

Shape is here; rules that need two keys, the catalogue or the disk are in `rules`. Files are read by
`loading.load_experiment`, the only way in. Every description below is shown to the user when the
key is missing or wrong, and by editors through the JSON Schema.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from draftworth.experiment.aws import Aws
from draftworth.experiment.catalog import Accelerator, Release, catalog
from draftworth.experiment.search import HubSearch, LocalSearch, Place, Search
from draftworth.experiment.strict import SET_NAME_PATTERN, Name, PositiveInt, StrictModel
from draftworth.experiment.variants import (
    AsShipped,
    Baseline,
    HubModel,
    HubSpeculative,
    HubVariant,
    LocalModel,
    LocalVariant,
    Speculative,
    Variant,
)
from draftworth.experiment.workload import Workload
from draftworth.records.load import Load

_COMMIT = re.compile(r"[0-9a-f]{40}")
# Each starts all servers again.
MAX_REPETITIONS = 16
Repetitions = Annotated[int, Field(ge=1, le=MAX_REPETITIONS)]
V = TypeVar("V", bound=Baseline | Speculative)


class Serving(StrictModel):
    """Engine settings that every variant gets alike."""

    max_num_seqs: PositiveInt = Field(description="sequences decoded at once")
    max_model_len: PositiveInt = Field(description="prompt and output together, tokens")
    tool_call_parser: Annotated[str, Field(pattern=SET_NAME_PATTERN, max_length=64)] | None = None
    """vLLM's name of what reads the model's tool calls, e.g. hermes; for prompts with tools"""


class LocalServing(Serving):
    """Engine settings of a CPU rehearsal."""

    kv_cache_gib: PositiveInt = Field(default=1, description="memory for the KV cache, GiB")


class NeuronServing(Serving):
    """Engine settings on Neuron devices."""

    tensor_parallel_size: PositiveInt
    """logical cores one service spans: slot_devices x logical cores per device"""
    lnc: PositiveInt = 2
    """logical NeuronCore configuration: physical cores in a logical one"""
    slot_devices: PositiveInt
    """connected Neuron devices one service claims: 1, 4, 8 or 16"""
    buckets: Literal["engine", "one"] = "engine"
    """lengths that graphs are compiled for: as the engine does it, about eight graphs a variant; or
    one for prompts and one for output, which fit the workload: a prompt that leaves less room than
    workload.output_tokens is refused then. Only with NxD Inference"""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Neuron engine settings for ALL variants, over what the dialect sets itself"""


class ExperimentBase(StrictModel):
    """What every experiment has."""

    name: Name = Field(description="DNS label; names stacks, metrics and result folders")
    description: str = Field(default="", description="one line for people")
    release: str = Field(json_schema_extra={"enum": [*catalog().releases]})
    """an entry of the catalogue"""
    workload: Workload
    variants: tuple[Variant, ...]
    search: Search | None = None
    rerun: PositiveInt = 1
    """raise it to measure once more what is otherwise unchanged"""
    repetitions: Repetitions = 1
    """times that the run measures with servers that were started anew, in swapped slots every
    second time"""
    control: bool = False
    """true: measure the baseline against itself too: what that shows is no effect of speculation"""

    @property
    def release_facts(self) -> Release:
        """The catalogue's entry."""
        return catalog().releases[self.release]

    @property
    def served_variants(self) -> tuple[Variant, ...]:
        """The file's variants, and the candidates of its search."""
        if self.search is None:
            return self.variants
        return (*self.variants, *(found for _, found in self.search.candidates(self.variants)))

    def uses(self, method: str) -> bool:
        """Whether a variant speculates in that way."""
        return any(variant.method == method for variant in self.served_variants)

    @property
    def changes_servers(self) -> bool:
        """Whether the measuring program starts and stops servers."""
        return self.repetitions > 1 or self.control or self.search is not None

    def max_tokens_per_step(self, variant: Variant) -> int:
        """Most output tokens a step can yield: 1 for the baseline, else by the release's rule."""
        if not isinstance(variant, Speculative):
            return 1
        return self.release_facts.methods[variant.method].max_tokens_per_step(variant.window)


class NeuronExperiment(ExperimentBase):
    """An experiment on nodes with Neuron devices."""

    target: HubModel = Field(description="the model whose decoding is measured")
    serving: NeuronServing
    variants: tuple[HubVariant, ...] = Field(min_length=1)
    """two or more, with a search one or more; exactly one has method none"""
    search: HubSearch | None = None
    """drafts and windows to try in turn, on one slot beside the baseline's"""
    baseline_as_shipped: bool = False
    """one more variant: no speculation, with the engine's own defaults; costs a slot"""
    repetitions: Repetitions = 2
    """times that the run measures with servers that were started anew, in swapped slots every
    second time; with a search 1, which is its default then"""
    aws: Aws

    @property
    def served_variants(self) -> tuple[Variant, ...]:
        """Those of any experiment, and the baseline as shipped where it is asked for."""
        return (*super().served_variants, *[AsShipped()] * self.baseline_as_shipped)

    @property
    def models(self) -> tuple[HubModel, ...]:
        """The checkpoints to stage: the target's and the drafts', each once."""
        drafts = (v.draft for v in self.served_variants if isinstance(v, HubSpeculative))
        return tuple({m.storage_prefix: m for m in (self.target, *drafts)}.values())

    @property
    def gated_models(self) -> tuple[str, ...]:
        """Models that the catalogue knows the hub to give only to accounts with a licence."""
        return tuple(m.model for m in self.models if m.facts and m.facts.gated)

    @property
    def unpinned_models(self) -> tuple[str, ...]:
        """MODEL@REVISION of every model whose revision is not a commit, so that it may move."""
        moving = (m for m in self.models if not _COMMIT.fullmatch(m.revision))
        return tuple(f"{m.model}@{m.revision}" for m in moving)

    @property
    def image(self) -> str:
        """The serving image of every variant."""
        image = self.release_facts.image
        assert image is not None, "the loader admits only Neuron releases here"
        return image

    @property
    def instance_type(self) -> str:
        """EC2 instance type of the accelerator nodes."""
        return self.aws.instance_type

    @property
    def accelerator(self) -> Accelerator:
        """The catalogue's entry of the instance type."""
        return catalog().instances[self.instance_type]


class LocalExperiment(ExperimentBase):
    """An experiment with engines on this machine: the rehearsal."""

    target: LocalModel = Field(description="the model whose decoding is measured")
    serving: LocalServing
    variants: tuple[LocalVariant, ...] = Field(min_length=1)
    """two or more, with a search one or more; exactly one has method none"""
    search: LocalSearch | None = None
    """drafts and windows to try in turn, one server beside the baseline's"""


Experiment = NeuronExperiment | LocalExperiment


def placed_variants(experiment: Experiment) -> Iterator[tuple[Place, Variant]]:
    """The variants by hand, then the candidates of the search, each with its place in the file."""
    for index, variant in enumerate(experiment.variants):
        yield Place(whole=("variants", index)), variant
    if experiment.search:
        yield from experiment.search.candidates(experiment.variants)


def variants_of(experiment: Experiment, kind: type[V]) -> Iterator[tuple[Place, V]]:
    """Those of a type."""
    for place, variant in placed_variants(experiment):
        if isinstance(variant, kind):
            yield place, variant


def loads_of(experiment: Experiment) -> tuple[Load, ...]:
    """What every variant is measured at, one after the other."""
    return experiment.workload.loads(experiment.serving.max_num_seqs)


def beside(experiment_path: Path, relative: str) -> Path:
    """A path of the experiment file, which counts from the file's folder."""
    # Not Path.resolve(), which raises for a link to itself.
    return Path(os.path.realpath(experiment_path.parent / relative))
