"""The catalogue of releases, models and instances: types for the facts of `catalog.yaml`."""

from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from draftworth.experiment.strict import StrictModel, read_yaml
from draftworth.records.deployment import DraftTokenizer
from draftworth.speculation import most_tokens_per_step

NO_SPECULATION: Final = "none"
NGRAM: Final = "ngram"

ModelKind = Literal["causal_lm", "eagle3_head", "dflash_head"]
DraftKind = ModelKind | Literal["any"] | None
Platform = Literal["neuron", "local"]


class Method(StrictModel):
    """A speculation method: the facts that are the same on every release."""

    draft: DraftKind
    """The kind of model that it takes as a draft; None: it needs no draft."""
    tokenizer: DraftTokenizer
    """Whether the draft must have a tokenizer of its own, equal to the target's."""
    fixed_window: bool = False
    """The draft was trained for one window and works with no other."""
    step_cost_per_draft: tuple[float, float] | None = None
    """Cost that each drafted token adds to a step, in baseline steps: lowest and highest published;
    None: not known."""

    def takes(self, kind: ModelKind) -> bool:
        return self.draft in (kind, "any")

    @property
    def refuses_estimate(self) -> str:
        """The reason why tokens per step cannot be predicted from text alone; empty if they can."""
        if self.draft is None:
            return "no model drafts"
        heads = "its drafts read the target's hidden states, which no text holds"
        return "" if self.draft == "causal_lm" else heads


class UnservedMethod(StrictModel):
    """A speculation method that exists, but that no release of `platform` can serve."""

    platform: Platform | None = None
    """The platform that does not serve it; None: no platform does."""
    because: str
    instead: str
    """A similar method that is served, or other software that runs this one."""


class MethodFacts(StrictModel):
    """Facts of one method on one release."""

    window_yield: Literal["window", "window_plus_one"] = Field(alias="yield")
    min_window: Annotated[int, Field(ge=1)]
    engine_settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the engine that only this method needs, in the dialect's own words."""
    draft_must: str = ""
    """A demand of this release on the draft: the words after "the draft must"; empty: no demand."""

    def max_tokens_per_step(self, window: int) -> int:
        checks_all = self.window_yield == "window_plus_one"
        return most_tokens_per_step(window, checks_all=checks_all)


class ArtifactFolder(StrictModel):
    """The engine loads compiled graphs from a folder, which may be read-only, or compiles them."""

    kind: Literal["artifact_folder"]
    variable: str
    """The environment variable with the folder."""


class CompilerCache(StrictModel):
    """The engine keeps compiled graphs in a cache folder, which must be writable."""

    kind: Literal["compiler_cache"]
    variable: str
    """The environment variable with the cache's folder."""
    folder: str
    """The folder of the graphs, below the cache."""
    proof_variable: str | None = None
    """If it is 1, the engine ends if a graph is not in the cache; None: no such variable exists."""


CompiledGraphs = Annotated[ArtifactFolder | CompilerCache, Field(discriminator="kind")]


class Release(StrictModel):
    """One serving image: its vLLM version, its command-line dialect and the methods it serves."""

    platform: Platform
    image: str | None
    runtime: str | None = None
    """The version of the Neuron runtime in its image; None: not known, or it has none."""
    vllm_version: str
    dialect: str
    """The name of its command line in `serving/dialects.py`."""
    methods: dict[str, MethodFacts]
    compiled_graphs: CompiledGraphs | None
    """The way to save and load compiled graphs; None: nothing is compiled."""
    lnc: tuple[int, ...] | None = None
    """Logical core sizes that its engine runs with; None: all of the instance type."""
    engine_settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the engine that all variants share, in the dialect's own words."""
    depends_on_speculation: tuple[str, ...] = ()
    """Flags and engine settings whose defaults depend on speculation."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables of every server."""
    per_request_acceptance: bool = False
    """Its servers can count the accepted drafts of each answer."""
    refuses_sampling: str = ""
    """Why it is not measured at a temperature above 0; empty: it can be measured."""
    doubtful_sampling: str = ""
    """A known fault at a temperature above 0, although it can be measured; empty: no fault."""
    sources: tuple[str, ...]

    @property
    def tells_token_ids(self) -> bool:
        return tuple(map(int, self.vllm_version.split("."))) >= (0, 10, 2)


class ModelFacts(StrictModel):
    """Facts of a model that decide which targets or drafts it can be combined with."""

    tokenizer_family: str
    kind: ModelKind
    checkpoint_gib: float | None = None
    gated: bool = False
    """The hub gives it only to accounts that have accepted its licence, and wants a token."""
    trained_for: str | None = None
    """The target model of a head."""
    window: int | None = None
    """The one window that a head was trained for."""
    served_by: tuple[str, ...] = ()
    """Dialects that serve a head according to publications."""
    doubtful_on: tuple[str, ...] = ()
    """Dialects that probably do not serve a head."""


class Accelerator(StrictModel):
    """One accelerator instance type."""

    devices: int
    physical_cores_per_device: int
    legal_slot_devices: tuple[int, ...]
    legal_lnc: tuple[int, ...]
    efa_interfaces: int
    """0: nodes have no EFA interface, no security group for them and no placement group."""
    s3_gbit_per_s: int
    """The network throughput that Mountpoint gets as an option."""
    vcpus: int
    memory_gib: int
    nvme_gib: int
    """Size of the local disks; 0: no local disk is known, so the root disk is larger."""
    seen_in: tuple[str, ...]
    """Regions in which it has been on offer; there may be more."""
    sources: tuple[str, ...]

    def logical_cores(self, *, devices: int, lnc: int) -> int:
        return devices * self.physical_cores_per_device // lnc


class NodeImages(StrictModel):
    """What is known about the releases of EKS's node images."""

    drivers: dict[str, str]
    """Release of the node images to the version of its Neuron driver, oldest first."""
    sources: tuple[str, ...]


class Catalog(StrictModel):
    """The content of `catalog.yaml`."""

    methods: dict[str, Method]
    unserved_methods: dict[str, UnservedMethod]
    releases: dict[str, Release]
    node_images: NodeImages
    models: dict[str, ModelFacts]
    instances: dict[str, Accelerator]

    @property
    def methods_with_draft(self) -> dict[str, Method]:
        return {name: method for name, method in self.methods.items() if method.draft}


@cache
def catalog() -> Catalog:
    """Read the shipped catalogue; later calls return the same object."""
    text = files("draftworth.experiment").joinpath("catalog.yaml").read_text(encoding="utf-8")
    return read_yaml(Catalog, text)
