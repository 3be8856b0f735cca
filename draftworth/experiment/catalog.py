"""The catalogue: what each release serves, what is known of models and instances.

The facts are data (`catalog.yaml`, each with its source); this module gives them types.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import yaml
from pydantic import Field

from draftworth.experiment.strict import StrictModel

SpeculativeMethod = Literal["fused_draft", "eagle", "eagle3", "draft_model"]
Method = Literal["none", "fused_draft", "eagle", "eagle3", "draft_model"]
Dialect = Literal["neuron_v0_nxdi", "neuron_v1_nxdi", "vllm_neuron", "vllm_cpu"]
Platform = Literal["neuron", "local"]
WindowYield = Literal["window", "window_plus_one"]


class MethodFacts(StrictModel):
    """How one release serves one method."""

    window_yield: WindowYield = Field(alias="yield")
    min_window: Annotated[int, Field(ge=1)]

    def max_tokens_per_step(self, window: int) -> int:
        """Most output tokens one verification step can give."""
        return window if self.window_yield == "window" else window + 1

    def checked_drafts_per_step(self, window: int) -> int:
        """Drafted tokens that one verification step checks."""
        return self.max_tokens_per_step(window) - 1


class ArtifactFolder(StrictModel):
    """The engine loads compiled graphs from a folder, a read-only one too, or compiles into it."""

    kind: Literal["artifact_folder"]
    variable: str
    """Names the folder to the engine."""


class CompilerCache(StrictModel):
    """The engine keeps compiled graphs in a cache that it has to be able to write."""

    kind: Literal["compiler_cache"]
    variable: str
    """Names the cache to the engine."""
    folder: str
    """Where the graphs are, below the cache."""


CompiledGraphs = Annotated[ArtifactFolder | CompilerCache, Field(discriminator="kind")]


class Release(StrictModel):
    """One servable image: which vLLM, which command-line dialect, which methods."""

    platform: Platform
    image: str | None
    vllm_version: str
    dialect: Dialect
    methods: dict[SpeculativeMethod, MethodFacts]
    compiled_graphs: CompiledGraphs | None
    """How compiled graphs are saved and found again; None: nothing is compiled."""
    sources: tuple[str, ...]


class ModelFacts(StrictModel):
    """What must be known of a model before it is paired with another."""

    tokenizer_family: str
    kind: Literal["causal_lm", "eagle3_head"]
    checkpoint_gib: float
    # The hub gives it only to accounts that accepted its licence: downloading takes a token.
    gated: bool = False


class Instance(StrictModel):
    """One accelerator instance type."""

    devices: int
    physical_cores_per_device: int
    legal_slot_devices: tuple[int, ...]
    legal_lnc: tuple[int, ...]
    efa_interfaces: int
    vcpus: int
    memory_gib: int
    nvme_gib: int
    sources: tuple[str, ...]

    def logical_cores(self, *, devices: int, lnc: int) -> int:
        """Logical NeuronCores of `devices` devices when `lnc` physical cores make one."""
        return devices * self.physical_cores_per_device // lnc


class Catalog(StrictModel):
    """Everything of `catalog.yaml`."""

    releases: dict[str, Release]
    models: dict[str, ModelFacts]
    instances: dict[str, Instance]

    def releases_that_serve(self, method: str) -> tuple[str, ...]:
        """Names of the releases that can serve a method; all of them for the baseline."""
        return tuple(n for n, r in self.releases.items() if method == "none" or method in r.methods)


INSTANCE_TYPE = "trn2.48xlarge"


@cache
def catalog() -> Catalog:
    """The shipped catalogue, read once."""
    text = files("draftworth.experiment").joinpath("catalog.yaml").read_text(encoding="utf-8")
    return Catalog.model_validate_json(json.dumps(yaml.safe_load(text)))


def accelerator() -> Instance:
    """The instance type that every Neuron experiment runs on."""
    return catalog().instances[INSTANCE_TYPE]
