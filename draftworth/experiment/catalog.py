"""The catalogue: what each release serves, what is known of models and instances.

The facts are data (`catalog.yaml`, each with its source); this module gives them types.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from draftworth.experiment.strict import StrictModel, read_yaml
from draftworth.records.deployment import DraftTokenizer
from draftworth.speculation import most_tokens_per_step

# No draft, no speculation: the baseline's method.
NO_SPECULATION: Final = "none"

ModelKind = Literal["causal_lm", "eagle3_head", "dflash_head"]
Platform = Literal["neuron", "local"]


class Method(StrictModel):
    """What a way to speculate takes for a draft, on any release."""

    draft: ModelKind | Literal["any"]
    tokenizer: DraftTokenizer
    """Whether the draft must bring a tokenizer of its own, equal to the target's."""
    fixed_window: bool = False
    """The draft was trained for one window and works with no other."""
    step_cost_per_draft: tuple[float, float] | None = None
    """What each drafted token adds to a step, in baseline steps, best to worst; None: not known."""


class UnservedMethod(StrictModel):
    """A way to speculate that exists and cannot be measured here."""

    platform: Platform | None = None
    """Where it is not served; None: nowhere."""
    because: str
    instead: str
    """What serves something like it, or where it runs."""


class MethodFacts(StrictModel):
    """How one release serves one method."""

    window_yield: Literal["window", "window_plus_one"] = Field(alias="yield")
    min_window: Annotated[int, Field(ge=1)]
    engine_settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the engine that only this method wants, in the dialect's own words."""
    draft_must: str = ""
    """What this release wants of the draft, after "the draft must"; empty: nothing special."""

    def max_tokens_per_step(self, window: int) -> int:
        """Most output tokens one verification step can give."""
        checks_all = self.window_yield == "window_plus_one"
        return most_tokens_per_step(window, checks_all=checks_all)


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
    proof_variable: str | None = None
    """Set to 1, the engine ends where a graph is not in the cache; None: it has no such way."""


CompiledGraphs = Annotated[ArtifactFolder | CompilerCache, Field(discriminator="kind")]


class Release(StrictModel):
    """One servable image: which vLLM, which command-line dialect, which methods."""

    platform: Platform
    image: str | None
    vllm_version: str
    dialect: str
    """Which module of `serving` says its command line."""
    methods: dict[str, MethodFacts]
    compiled_graphs: CompiledGraphs | None
    """How compiled graphs are saved and found again; None: nothing is compiled."""
    lnc: tuple[int, ...] | None = None
    """Logical core sizes that its engine runs with; None: those that the instance has."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Set for every server."""
    per_request_acceptance: bool = False
    """Its servers can tell with each answer how many of its drafts were accepted."""
    refuses_sampling: str = ""
    """Why nothing is measured on it at a temperature above 0; empty: it is."""
    doubtful_sampling: str = ""
    """What is known to be wrong with it at a temperature above 0, where it is measured."""
    sources: tuple[str, ...]

    @property
    def tells_token_ids(self) -> bool:
        """Its servers know `return_token_ids`: vLLM 0.10.2 and later."""
        return tuple(map(int, self.vllm_version.split("."))) >= (0, 10, 2)


class ModelFacts(StrictModel):
    """What must be known of a model before it is paired with another."""

    tokenizer_family: str
    kind: ModelKind
    checkpoint_gib: float | None = None
    # The hub gives it only to accounts that accepted its licence: downloading takes a token.
    gated: bool = False
    trained_for: str | None = None
    """The target model of a head."""
    window: int | None = None
    """The window of a head that was trained for one."""
    served_by: tuple[str, ...] = ()
    """Dialects on which a head is published to work."""
    doubtful_on: tuple[str, ...] = ()
    """Dialects on which a head likely does not work."""


class Accelerator(StrictModel):
    """One accelerator instance type."""

    devices: int
    physical_cores_per_device: int
    legal_slot_devices: tuple[int, ...]
    legal_lnc: tuple[int, ...]
    efa_interfaces: int
    """0: nothing of EFA is set up: no interfaces, no group of their own, no placement group."""
    s3_gbit_per_s: int
    """What Mountpoint is told of the network."""
    vcpus: int
    memory_gib: int
    nvme_gib: int
    """Local disks; 0: none, or none that is known of, and the root disk has room instead."""
    sources: tuple[str, ...]

    def logical_cores(self, *, devices: int, lnc: int) -> int:
        """Logical NeuronCores of `devices` devices when `lnc` physical cores make one."""
        return devices * self.physical_cores_per_device // lnc


class Catalog(StrictModel):
    """Everything of `catalog.yaml`."""

    methods: dict[str, Method]
    unserved_methods: dict[str, UnservedMethod]
    releases: dict[str, Release]
    models: dict[str, ModelFacts]
    instances: dict[str, Accelerator]


@cache
def catalog() -> Catalog:
    """The shipped catalogue, read once."""
    text = files("draftworth.experiment").joinpath("catalog.yaml").read_text(encoding="utf-8")
    return read_yaml(Catalog, text)
