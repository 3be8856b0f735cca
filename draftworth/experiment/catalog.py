"""Reads the catalogue, `catalog.yaml`: facts about methods, releases, models and instance types."""

from datetime import date
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from draftworth.experiment.strict_model import StrictModel, read_yaml
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
    """The kind of model that the method takes as a draft; None: the method needs no draft."""
    tokenizer: DraftTokenizer
    """own: the draft must have a tokenizer, equal to the target's; own_or_none: it may lack one."""
    fixed_window: bool = False
    """True: each draft of the method was trained for one window and works with no other."""
    step_cost_per_draft: tuple[float, float] | None = None
    """(best case, worst case) of the cost that each drafted token adds to a step, in baseline
    steps: a range around published figures; None: none is published."""

    def takes(self, kind: ModelKind) -> bool:
        return self.draft in (kind, "any")

    @property
    def refuses_estimate(self) -> str:
        """Why the method's tokens per step cannot be predicted from text alone; empty: they can."""
        if self.draft is None:
            return "no model drafts"
        heads = "its drafts read the target's hidden states, which no text holds"
        return "" if self.draft == "causal_lm" else heads


class UnservedMethod(StrictModel):
    """A speculation method that no serving image supports, on one platform or on all."""

    platform: Platform | None = None
    """The platform that does not serve it; None: no platform does."""
    because: str
    instead: str
    """A similar method that is served, or other software that runs this one."""


class MethodFacts(StrictModel):
    """What is known about one speculation method on one release (serving image)."""

    window_yield: Literal["window", "window_plus_one"] = Field(alias="yield")
    min_window: Annotated[int, Field(ge=1)]
    engine_settings: dict[str, Any] = Field(default_factory=dict)
    """Engine settings that only this method needs, under the engine's names for them."""
    draft_must: str = ""
    """What the release demands of the draft, after the words "the draft must"; empty: nothing."""

    def max_tokens_per_step(self, window: int) -> int:
        checks_all = self.window_yield == "window_plus_one"
        return most_tokens_per_step(window, checks_all=checks_all)


class ArtifactFolder(StrictModel):
    """An engine that loads compiled graphs from a folder (it may be read-only) or else compiles."""

    kind: Literal["artifact_folder"]
    variable: str
    """The environment variable that gives the engine the path of the folder."""


class CompilerCache(StrictModel):
    """An engine that finds compiled graphs in a cache folder, which must be writable."""

    kind: Literal["compiler_cache"]
    variable: str
    """The environment variable that gives the engine the path of the cache folder."""
    folder: str
    """The path of the graphs inside the cache folder."""
    proof_variable: str | None = None
    """An environment variable; with the value 1 the engine ends if a graph is missing, instead of
    compiling it. None: the engine has no such variable."""


CompiledGraphs = Annotated[ArtifactFolder | CompilerCache, Field(discriminator="kind")]


class Release(StrictModel):
    """One serving image: its vLLM version, its command-line dialect and the methods it serves."""

    platform: Platform
    image: str | None
    runtime: str | None = None
    """The version of the Neuron runtime in the image; None: not known, or the image has none."""
    vllm_version: str
    dialect: str
    """The name of the command-line dialect in `serving/dialects.py`."""
    methods: dict[str, MethodFacts]
    compiled_graphs: CompiledGraphs | None
    """The way to save and load compiled graphs; None: nothing is compiled."""
    lnc: tuple[int, ...] | None = None
    """The values of `serving.lnc` with which the engine runs; None: all that the instance type
    allows."""
    engine_settings: dict[str, Any] = Field(default_factory=dict)
    """Engine settings that all variants share, under the engine's names for them."""
    depends_on_speculation: tuple[str, ...] = ()
    """Names of flags and engine settings that have other defaults with speculation than without."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables of every server."""
    per_request_acceptance: bool = False
    """True: servers can report with each answer how many of its drafts were accepted."""
    refuses_sampling: str = ""
    """Why the release is not measured at a temperature above 0; empty: it can be measured."""
    doubtful_sampling: str = ""
    """A known fault at temperatures above 0, in spite of which the release is measured there;
    empty: none is known."""
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
    """True: Hugging Face wants a token, of an account that has accepted the model's licence."""
    trained_for: str | None = None
    """The Hugging Face id of the target for which a head was trained; None: it is no head."""
    window: int | None = None
    """The one window for which a head was trained; None: the model has no such window."""
    served_by: tuple[str, ...] = ()
    """Names of the dialects that serve this head according to publications."""
    doubtful_on: tuple[str, ...] = ()
    """Names of the dialects that probably do not serve this head."""
    heads_doubtful_on: dict[str, str] = Field(default_factory=dict)
    """Why a dialect probably serves this target with no head at all, by the dialect's name."""


class Accelerator(StrictModel):
    """What is known about one EC2 instance type with accelerators."""

    devices: int
    physical_cores_per_device: int
    legal_slot_devices: tuple[int, ...]
    legal_lnc: tuple[int, ...]
    efa_interfaces: int
    """EFA interfaces of a node; 0: it gets no security group for them and no placement group."""
    s3_gbit_per_s: int
    """The network throughput for which Mountpoint for Amazon S3 is configured."""
    vcpus: int
    memory_gib: int
    nvme_gib: int
    """Size of the local disks; 0: no local disk is known, so the root disk is larger."""
    seen_in: tuple[str, ...]
    """Regions in which AWS has been seen to offer the instance type; there may be more."""
    sources: tuple[str, ...]

    def logical_cores(self, *, devices: int, lnc: int) -> int:
        return devices * self.physical_cores_per_device // lnc


class KubernetesVersion(StrictModel):
    """What is known about a minor version of Kubernetes on EKS."""

    standard_support_ends: date | None = None
    """The day from which EKS charges for extended support; None: not known."""


class NodeImages(StrictModel):
    """What is known about the releases of EKS's node images (AMIs)."""

    drivers: dict[str, str]
    """The version of the Neuron driver in each release of the node images, oldest release first."""
    sources: tuple[str, ...]


class Catalog(StrictModel):
    """The content of `catalog.yaml`."""

    methods: dict[str, Method]
    unserved_methods: dict[str, UnservedMethod]
    releases: dict[str, Release]
    kubernetes_versions: dict[str, KubernetesVersion]
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
