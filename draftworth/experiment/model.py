"""The experiment file's shape: typed, strict, frozen.

An experiment is one target model, one serving configuration, a workload, and two or more variants
that differ in how decoding is done. All that is not in a variant is shared by construction: a
variant has nowhere to put another tensor parallel size, image or batch limit.

Shape is here; rules that need two keys, the catalogue or the disk are in `rules`. Files are read by
`loading.load_experiment`, the only way in. Every description below is shown to the user when the
key is missing or wrong, and by editors through the JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from draftworth.experiment.catalog import (
    NO_SPECULATION,
    Accelerator,
    MethodFacts,
    ModelFacts,
    Release,
    catalog,
)
from draftworth.experiment.strict import StrictModel
from draftworth.records import load as load_shapes

# A DNS subdomain (RFC 1123) of letters, digits, hyphens and dots; where a label is wanted,
# `naming.dns_label` turns the dots into hyphens. The length leaves room for prefixes and content
# hashes within a label's 63 characters.
NAME_PATTERN = r"^[a-z]([a-z0-9.-]*[a-z0-9])?$"
MAX_NAME_LENGTH = 32
# Prompt classes and cases are folders and files, metric dimensions and parts of object keys.
SET_NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]*$"
HUB_ID_PATTERN = r"^[A-Za-z0-9][\w.-]*/[\w.-]+$"
REVISION_PATTERN = r"^[\w.-]+$"
RESERVATION_PATTERN = r"^cr-[0-9a-f]{17}$"
REGION_PATTERN = r"^[a-z]{2}(-[a-z]+)+-\d$"
EMAIL_PATTERN = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"
SECRET_NAME_PATTERN = r"^[A-Za-z0-9/_+=.@-]+$"  # noqa: S105 (what a NAME may look like)

_COMMIT = re.compile(r"[0-9a-f]{40}")

# What a pattern allows, in words, for messages.
PATTERN_WORDS = {
    NAME_PATTERN: "lower-case letters, digits, hyphens and dots, a letter first, no hyphen or dot "
    "last",
    SET_NAME_PATTERN: "lower-case letters, digits, hyphens, underscores; a letter or digit first",
    HUB_ID_PATTERN: "OWNER/NAME, as in Qwen/Qwen3-32B",
    REVISION_PATTERN: "a branch, tag or commit: letters, digits, dots, hyphens and underscores",
    RESERVATION_PATTERN: "cr- and 17 hex digits, as in cr-0123456789abcdef0",
    REGION_PATTERN: "a region such as us-east-2",
    EMAIL_PATTERN: "an e-mail address",
    SECRET_NAME_PATTERN: "a secret's name: letters, digits and /_+=.@-",
}

PositiveInt = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)]


class HubModel(StrictModel):
    """A checkpoint of the model hub, staged in the checkpoints bucket."""

    model: str = Field(
        pattern=HUB_ID_PATTERN,
        description="hub id, OWNER/NAME, as in Qwen/Qwen3-32B",
    )
    revision: str = Field(
        default="main",
        pattern=REVISION_PATTERN,
        description="branch, tag or commit; a commit makes runs comparable over months",
    )
    tokenizer_family: str | None = Field(
        default=None,
        description="needed only for a model the catalogue does not know: models of one family "
        "share token ids",
    )

    @property
    def facts(self) -> ModelFacts | None:
        """The catalogue's entry; None for a model that it does not know."""
        return catalog().models.get(self.model)

    @property
    def known_tokenizer_family(self) -> str | None:
        """The catalogue's word, else the file's, else None."""
        return self.facts.tokenizer_family if self.facts else self.tokenizer_family

    @property
    def storage_prefix(self) -> str:
        """Where the checkpoint lies in the checkpoints bucket, without a trailing slash."""
        return f"{self.model}/{self.revision}"


class LocalModel(StrictModel):
    """A checkpoint folder on this machine."""

    path: str = Field(description="checkpoint folder, relative to the experiment file")


class Baseline(StrictModel):
    """Decoding without speculation."""

    name: Name = Field(description="DNS name, unique in the experiment")
    method: Literal["none"] = Field(description="`none` is the baseline; there is exactly one")


class Speculative(StrictModel):
    """Decoding with drafts that the target verifies."""

    name: Name = Field(description="DNS name, unique in the experiment")
    method: str = Field(
        description="how tokens are drafted", json_schema_extra={"enum": [*catalog().methods]}
    )
    window: PositiveInt = Field(
        description="num_speculative_tokens: tokens drafted for each verification step"
    )


class HubSpeculative(Speculative):
    """Speculation with a draft of the model hub."""

    draft: HubModel = Field(description="the draft model or EAGLE head")


class LocalSpeculative(Speculative):
    """Speculation with a draft folder on this machine."""

    draft: LocalModel = Field(description="the draft model")


def variant_tag(value: Any) -> str | None:
    """Which variant type a mapping means: `method: none` is the baseline, all else speculates."""
    method = value.get("method") if isinstance(value, dict) else getattr(value, "method", None)
    if method is None:
        return None
    return "baseline" if method == NO_SPECULATION else "speculative"


HubVariant = Annotated[
    Annotated[Baseline, Tag("baseline")] | Annotated[HubSpeculative, Tag("speculative")],
    Discriminator(variant_tag),
]
LocalVariant = Annotated[
    Annotated[Baseline, Tag("baseline")] | Annotated[LocalSpeculative, Tag("speculative")],
    Discriminator(variant_tag),
]
Variant = Baseline | HubSpeculative | LocalSpeculative


class Serving(StrictModel):
    """Engine settings that every variant gets alike."""

    max_num_seqs: PositiveInt = Field(description="sequences decoded at once")
    max_model_len: PositiveInt = Field(description="prompt and output together, tokens")


class LocalServing(Serving):
    """Engine settings of a CPU rehearsal."""

    kv_cache_gib: PositiveInt = Field(default=1, description="memory for the KV cache, GiB")


class NeuronServing(Serving):
    """Engine settings on Neuron devices."""

    tensor_parallel_size: PositiveInt = Field(
        description="logical cores one service spans: slot_devices x logical cores per device"
    )
    lnc: PositiveInt = Field(
        default=2, description="logical NeuronCore configuration: physical cores in a logical one"
    )
    slot_devices: PositiveInt = Field(
        description="connected Neuron devices one service claims: 1, 4, 8 or 16"
    )
    neuron_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Neuron engine settings for ALL variants, over what the dialect sets itself",
    )


class PromptClass(StrictModel):
    """A kind of traffic: a folder of cases."""

    name: Annotated[str, Field(pattern=SET_NAME_PATTERN, max_length=MAX_NAME_LENGTH)] = Field(
        description="folder below prompts_dir, e.g. structured"
    )
    cases: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="file stems in the folder; all of them when left out",
    )
    weight: Annotated[float, Field(gt=0)] = Field(
        default=1.0, description="this class's part of your output tokens, relative to the others'"
    )


class ConcurrencyLoad(StrictModel):
    """So many requests in flight, always."""

    kind: Literal["concurrency"]
    concurrency: PositiveInt = Field(description="requests in flight")

    def shapes(self) -> tuple[load_shapes.Load, ...]:
        """The one load."""
        return (load_shapes.ConcurrencyLoad(concurrency=self.concurrency),)


class PoissonLoad(StrictModel):
    """Requests at random times, whatever is still in flight."""

    kind: Literal["poisson"]
    requests_per_second: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="mean rate"
    )

    def shapes(self) -> tuple[load_shapes.Load, ...]:
        """The one load."""
        return (load_shapes.PoissonLoad(requests_per_second=self.requests_per_second),)


class LadderLoad(StrictModel):
    """One concurrency after the other."""

    kind: Literal["ladder"]
    concurrencies: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = Field(
        description="requests in flight on each rung"
    )

    def shapes(self) -> tuple[load_shapes.Load, ...]:
        """A load a rung, one after the other."""
        return tuple(load_shapes.ConcurrencyLoad(concurrency=n) for n in self.concurrencies)


LoadSpec = Annotated[ConcurrencyLoad | PoissonLoad | LadderLoad, Field(discriminator="kind")]


class Workload(StrictModel):
    """What is asked of every variant."""

    prompts_dir: str = Field(
        description="folder of prompt classes, relative to the experiment file"
    )
    classes: Annotated[tuple[PromptClass, ...], Field(min_length=1)] = Field(
        description="the prompt classes to measure"
    )
    input_tokens: PositiveInt = Field(
        description="longest prompt, chat template included, tokens; used to check max_model_len"
    )
    output_tokens: PositiveInt = Field(description="max_tokens of every request")
    fixed_output_length: bool = Field(
        default=True, description="true: ignore end-of-sequence so that every output is as long"
    )
    temperature: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="0: greedy, the outputs of the variants can be compared"
    )
    load: LoadSpec = Field(description="how requests are sent")
    load_generator: load_shapes.LoadGenerator = Field(
        default="asyncio",
        description="what sends them: `asyncio`, one process; `llmperf`, its library on Ray, a "
        "process for each request in flight",
    )
    requests_per_round: PositiveInt = Field(
        default=8, description="measured requests of each case and variant in one round"
    )
    min_requests: PositiveInt = Field(
        default=16, description="measured requests of each case and variant, at least"
    )
    max_requests: PositiveInt = Field(
        default=64, description="measured requests of each case and variant, at most"
    )
    target_interval_width: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.1,
        description="rounds go on until the 95% interval of every class's speedup is no wider than "
        "this part of the speedup",
    )
    warmup_requests: Annotated[int, Field(ge=0)] = Field(
        default=1, description="requests before each block, not measured"
    )
    parallel: bool = Field(
        default=False,
        description="true: load all variants at once, as llmperf examples do; false: one by one",
    )
    seed: int = Field(default=0, description="seed sent with every request")
    enable_thinking: bool = Field(
        default=False, description="chat template switch of reasoning models such as Qwen3"
    )
    request_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        default=300.0, description="a request that takes longer is recorded as failed"
    )


class OnDemand(StrictModel):
    """Nodes at the public price, when there are any."""

    kind: Literal["on_demand"]


class Spot(StrictModel):
    """Nodes from spare capacity, taken back at two minutes' notice."""

    kind: Literal["spot"]


class CapacityBlock(StrictModel):
    """Nodes from a Capacity Block for ML, paid in advance for a window of time."""

    kind: Literal["capacity_block"]
    reservation_id: str = Field(
        pattern=RESERVATION_PATTERN,
        description="id of the Capacity Block, cr- and 17 hex digits: without it EC2 launches "
        "nothing into the block",
    )


Capacity = Annotated[OnDemand | Spot | CapacityBlock, Field(discriminator="kind")]


class Price(StrictModel):
    """What an accelerator node costs. Prices move: this is data with a date, never code."""

    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="US dollars a node and hour"
    )
    as_of: date = Field(description="the day this price was looked up, YYYY-MM-DD")
    source: str = Field(min_length=1, description="where it was looked up")


class Aws(StrictModel):
    """Where and on what the experiment runs."""

    region: str = Field(pattern=REGION_PATTERN, description="AWS region, e.g. us-east-2")
    availability_zone: str = Field(
        description="the one zone of the accelerator nodes, e.g. us-east-2c: EFA, placement group "
        "and Capacity Block all live in one zone"
    )
    kubernetes_version: Literal["1.35"] = Field(
        default="1.35",
        description="quoted; DRA needs 1.34 or later, 1.35 is what is supported here",
    )
    public_access_cidrs: tuple[str, ...] = Field(
        default=(),
        description="IPv4 ranges that may reach the Kubernetes API from outside; none: private",
    )
    admin_principal_arns: tuple[str, ...] = Field(
        default=(), description="IAM roles or users who get cluster administrator access"
    )
    capacity: Capacity = Field(description="how accelerator nodes are bought")
    price: Price = Field(description="price of one accelerator node")
    budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        description="accelerator nodes go to zero when their hours x price reach this, US dollars"
    )
    notify_email: str | None = Field(
        default=None,
        pattern=EMAIL_PATTERN,
        description="gets each decision about the accelerator nodes, once the address is confirmed",
    )
    hub_token_secret: str | None = Field(
        default=None,
        pattern=SECRET_NAME_PATTERN,
        max_length=512,
        description="NAME of the Secrets Manager secret that holds the hub token, for gated "
        "models; the token itself belongs in no file",
    )
    keep_checkpoints: bool = Field(
        description="true: the checkpoints bucket outlives `cdk destroy`; false: it goes"
    )
    load_generator_image: str | None = Field(
        default=None, description="image URI of the load generator; left out: built by CDK"
    )
    deadline_minutes: PositiveInt = Field(
        default=240,
        description="accelerator nodes go to zero this many minutes after the deploy, whatever the "
        "state; the measuring run gets as many from its first pod's start; may be moved meanwhile",
    )


class ExperimentBase(StrictModel):
    """What every experiment has."""

    name: Name = Field(description="DNS label; names stacks, metrics and result folders")
    description: str = Field(default="", description="one line for people")
    release: str = Field(
        description="an entry of the catalogue",
        json_schema_extra={"enum": [*catalog().releases]},
    )
    workload: Workload
    repetition: PositiveInt = Field(
        default=1, description="raise it to measure once more what is otherwise unchanged"
    )

    @property
    def release_facts(self) -> Release:
        """The catalogue's entry."""
        return catalog().releases[self.release]

    def method_facts(self, variant: Speculative) -> MethodFacts:
        """How the release serves a variant's method."""
        return self.release_facts.methods[variant.method]

    def max_tokens_per_step(self, variant: Variant) -> int:
        """Most output tokens a step can yield: 1 for the baseline, else by the release's rule."""
        if not isinstance(variant, Speculative):
            return 1
        return self.method_facts(variant).max_tokens_per_step(variant.window)


class NeuronExperiment(ExperimentBase):
    """An experiment on trn2.48xlarge nodes."""

    target: HubModel = Field(description="the model whose decoding is measured")
    serving: NeuronServing
    variants: Annotated[tuple[HubVariant, ...], Field(min_length=2)] = Field(
        description="two or more; exactly one has method none"
    )
    aws: Aws

    @property
    def models(self) -> tuple[HubModel, ...]:
        """The checkpoints to stage: the target's and the drafts', each once."""
        drafts = (v.draft for v in self.variants if isinstance(v, HubSpeculative))
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
        return "trn2.48xlarge"

    @property
    def accelerator(self) -> Accelerator:
        """The catalogue's entry of the instance type."""
        return catalog().instances[self.instance_type]


class LocalExperiment(ExperimentBase):
    """An experiment with engines on this machine: the rehearsal."""

    target: LocalModel = Field(description="the model whose decoding is measured")
    serving: LocalServing
    variants: Annotated[tuple[LocalVariant, ...], Field(min_length=2)] = Field(
        description="two or more; exactly one has method none"
    )


Experiment = NeuronExperiment | LocalExperiment


def baseline(experiment: Experiment) -> Baseline:
    """The one variant without speculation."""
    return next(v for v in experiment.variants if isinstance(v, Baseline))


def speculative(experiment: Experiment) -> tuple[HubSpeculative | LocalSpeculative, ...]:
    """The variants with speculation, in file order."""
    return tuple(v for v in experiment.variants if not isinstance(v, Baseline))


def speculative_by_index(experiment: Experiment) -> Iterator[tuple[int, Speculative]]:
    """The variants with speculation and their places in the file's list."""
    for index, variant in enumerate(experiment.variants):
        if isinstance(variant, Speculative):
            yield index, variant


def beside(experiment_path: Path, relative: str) -> Path:
    """A path of the experiment file, which counts from the file's folder."""
    return (experiment_path.parent / relative).resolve()
