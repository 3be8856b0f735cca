"""The experiment file's variants: methods of decoding, and the checkpoints that they need.

Every class of variants has the same properties, such as the window and the draft from Hugging Face,
each None if the variant has none, so that other modules seldom check the class itself.
"""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from draftworth.errors import Key, Problem
from draftworth.experiment import strict_model
from draftworth.experiment.catalog import NGRAM, NO_SPECULATION, ModelFacts, catalog
from draftworth.records.checkpoints import checkpoint_prefix
from draftworth.records.results import AS_SHIPPED


class HubModel(strict_model.StrictModel):
    """A checkpoint of the model hub, staged in the checkpoints bucket."""

    model: str = Field(
        pattern=strict_model.PATTERNS["hub_id"], max_length=strict_model.MAX_HUB_ID_LENGTH
    )
    """hub id, OWNER/NAME, as in Qwen/Qwen3-32B"""
    revision: str = Field(
        default="main",
        pattern=strict_model.PATTERNS["revision"],
        max_length=strict_model.MAX_REVISION_LENGTH,
    )
    """branch, tag or commit; a commit makes runs comparable over months"""
    tokenizer_family: str | None = None
    """needed only for a model that is not in the catalogue; models of one family share token ids"""
    allow_pickle_weights: bool = False
    """true: also stage *.bin, *.pt and *.pth, Python pickles that can run any code in the server"""

    @property
    def id_or_path(self) -> str:
        return self.model

    @property
    def facts(self) -> ModelFacts | None:
        return catalog().models.get(self.model)

    @property
    def known_tokenizer_family(self) -> str | None:
        return self.facts.tokenizer_family if self.facts else self.tokenizer_family

    @property
    def storage_prefix(self) -> str:
        return checkpoint_prefix(self.model, self.revision)


class LocalModel(strict_model.StrictModel):
    """A checkpoint folder on this machine."""

    facts: ClassVar[None] = None
    path: str = Field(description="checkpoint folder, relative to the experiment file")

    @property
    def id_or_path(self) -> str:
        return self.path


class _Method(strict_model.StrictModel):
    is_baseline: ClassVar[bool] = False
    keeps_engine_defaults: ClassVar[bool] = False

    @property
    def decoding(self) -> str:
        """The variant without its name, as JSON: variants with equal text decode equally."""
        return self.model_dump_json(exclude={"name"})

    @property
    def draft_id_or_path(self) -> str | None:
        return None

    @property
    def hub_draft(self) -> HubModel | None:
        return None

    @property
    def lookup_lengths(self) -> tuple[int, int] | None:
        """The lengths (fewest, most tokens) of an output's end that n-gram drafting looks up.

        None: the variant does not draft by n-grams.
        """
        return None

    def engine_settings(self, draft: str) -> dict[str, Any]:  # noqa: ARG002 (most need none)
        """Return the entries of vLLM's `--speculative-config` on how the variant drafts.

        draft: the path of the draft's checkpoint; only a variant with a draft model uses it.
        """
        return {}


class _WithoutSpeculation(_Method):
    words: ClassVar[str]
    window: ClassVar[None] = None


class Baseline(_WithoutSpeculation):
    """Decoding without speculation."""

    is_baseline = True
    words = "one token per step (the baseline)"
    name: strict_model.Name = Field(
        default="baseline", description="DNS name, unique in the experiment"
    )
    method: Literal["none"] = Field(description="`none` is the baseline; there is exactly one")


class AsShipped(_WithoutSpeculation):
    """Decoding without speculation, with the engine's own defaults.

    No experiment file lists this variant: `baseline_as_shipped: true` adds it.
    """

    keeps_engine_defaults = True
    words = "one token per step, with the engine's own defaults (beside the baseline)"
    name: Literal["baseline-as-shipped"] = AS_SHIPPED
    method: Literal["none"] = NO_SPECULATION


# About twice the largest window for which anybody has published measurements, 15.
MAX_WINDOW = 31
Window = Annotated[int, Field(ge=1, le=MAX_WINDOW)]


def name_stem(draft: str) -> str:
    """Return the first part of a candidate's name, made from its draft's id or path.

    A search names its candidates `STEM-kWINDOW`; this is STEM. It is lower-case, as a variant's
    name must be, and short enough that the name is not too long with any window.
    """
    stem = re.sub(r"[^a-z0-9.-]+", "-", PurePosixPath(draft).name.lower()).strip(".-")
    if not re.match(r"[a-z]", stem):
        stem = f"draft-{stem}"
    return stem[: strict_model.MAX_NAME_LENGTH - len(f"-k{MAX_WINDOW}")].rstrip(".-")


class Speculative(_Method):
    """Decoding with drafts that the target verifies."""

    name: strict_model.Name = Field(default_factory=str)
    """DNS name, unique in the experiment; left out: of draft and window, as in qwen3-1.7b-k7"""
    method: str
    window: Window
    """num_speculative_tokens: tokens drafted for each step; the published windows end at 15"""

    def model_post_init(self, _: object) -> None:
        """If the file gives the variant no name, make one of its draft (or method) and window."""
        if not self.name:
            name = f"{name_stem(self.draft_id_or_path or self.method)}-k{self.window}"
            object.__setattr__(self, "name", name)


class _WithDraft(Speculative):
    method: str = Field(json_schema_extra={"enum": [*catalog().methods_with_draft]})
    """how tokens are drafted"""
    draft: HubModel | LocalModel

    @property
    def words(self) -> str:
        return f"{self.method}, draft {self.draft.id_or_path}, window {self.window}"

    @property
    def draft_id_or_path(self) -> str:
        return self.draft.id_or_path

    @property
    def hub_draft(self) -> HubModel | None:
        return self.draft if isinstance(self.draft, HubModel) else None

    def engine_settings(self, draft: str) -> dict[str, Any]:
        return {"model": draft}


class HubSpeculative(_WithDraft):
    """Speculation with a draft of the model hub."""

    draft: HubModel = Field(description="the draft model or EAGLE head")


class LocalSpeculative(_WithDraft):
    """Speculation with a draft folder on this machine."""

    draft: LocalModel = Field(description="the draft model")


class NgramSpeculative(Speculative):
    """Speculation without a second model: drafts are tokens that followed the same n-gram before.

    This is called n-gram drafting or prompt lookup.
    """

    method: Literal["ngram"] = Field(description="tokens are copied from prompt and output")
    prompt_lookup_min: strict_model.PositiveInt = 2
    """the fewest last tokens that must occur earlier in prompt or output"""
    prompt_lookup_max: strict_model.PositiveInt = 4
    """the most last tokens that are looked up; the longest match is taken"""

    @property
    def words(self) -> str:
        looked_up = f"{self.prompt_lookup_min} to {self.prompt_lookup_max} tokens looked up"
        return f"{self.method}, {looked_up}, window {self.window}"

    @property
    def lookup_lengths(self) -> tuple[int, int]:
        return self.prompt_lookup_min, self.prompt_lookup_max

    def engine_settings(self, draft: str) -> dict[str, Any]:  # noqa: ARG002 (it needs no draft)
        return {
            "prompt_lookup_min": self.prompt_lookup_min,
            "prompt_lookup_max": self.prompt_lookup_max,
        }


def variant_tag(value: Any) -> str | None:
    """Return the tag by which pydantic chooses a variant's class; None: its method is unknown.

    value: a variant, or a dict with the keys of one.
    """
    method = value.get("method") if isinstance(value, dict) else getattr(value, "method", None)
    if method == NO_SPECULATION:
        return "baseline"
    if method in [*catalog().methods_with_draft]:
        return "speculative"
    return "ngram" if method == NGRAM else None


HubVariant = Annotated[
    Annotated[Baseline, Tag("baseline")] | Annotated[HubSpeculative, Tag("speculative")],
    Discriminator(variant_tag),
]
LocalVariant = Annotated[
    Annotated[Baseline, Tag("baseline")]
    | Annotated[LocalSpeculative, Tag("speculative")]
    | Annotated[NgramSpeculative, Tag("ngram")],
    Discriminator(variant_tag),
]
Variant = Baseline | AsShipped | HubSpeculative | LocalSpeculative | NgramSpeculative


def methods_on(release: str) -> str:
    """Return a release's methods in words: `none (the baseline), dflash on neuron-2.33.0`."""
    served = catalog().releases[release].methods
    return f"{', '.join([f'{NO_SPECULATION} (the baseline)', *served])} on {release}"


def unserved_method(key: Key, method: str, release: str) -> Problem:
    """Return the `Problem` for a method that no image serves: it names what to use instead.

    key: where the method stands in the file.
    """
    facts = catalog().unserved_methods[method]
    return Problem(
        key=key,
        actual=f"{method} on release {release}",
        allowed=f"{methods_on(release)}; in the place of {method}: {facts.instead}",
        reason=facts.because,
    )
