"""The acceptance profile: a JSON document that says how many drafted tokens a target accepts.

`estimate --profile` and `report --profile` write it, a search and `estimate --acceptance` read it,
and `draftworth profile` converts it to and from the formats of other tools.
"""

import hashlib
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from draftworth.records.codec import RecordError, load_record
from draftworth.untrusted import MIB, one_line

# The largest profile that is read: twice the size of one that has 32 drafts, three prompt classes
# and all windows from 1 to 15.
LIMIT_BYTES = 4 * MIB
# Names of targets, drafts and classes go into tables, YAML and messages of one line.
_LONGEST_NAME = 500
_MOST_DRAFTS_CHECKED = 10**6
_ESTIMATE_IS_NO_PROFILE = (
    "it is the output of `estimate --json`, which a search read before there were profiles; next: "
    "`draftworth estimate EXPERIMENT --profile FILE`, and name that file"
)


def name_of(text: str) -> str:
    """Return a text as one printable line of at most 500 characters, as names in a profile must be.

    The result is `not known` if the text has no printable characters.
    """
    return one_line(text, characters=_LONGEST_NAME) or "not known"


def _check_names(key: str, *names: object) -> None:
    for name in names:
        is_text = isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_NAME
        if name is not None and not is_text:
            raise ValueError(
                f"{key}: given {reprlib.repr(name)}, allowed: text of 1 to {_LONGEST_NAME} "
                "characters on one line"
            )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A figure with its 95% interval over prompts; `low` and `high` are None if it is not known."""

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        ends = [end for end in (self.low, self.value, self.high) if end is not None]
        if sorted(ends) != ends:
            raise ValueError(f"given {ends}, allowed: low <= value <= high")


@dataclass(frozen=True, kw_only=True)
class WindowAcceptance:
    """How many output tokens a decoding step yields in one prompt class, for one draft length.

    drafts_checked: the largest number of drafted tokens that the target checks in one step.
    tokens_per_step: mean output tokens of a step, the target's own token included.
    accepted: the share of all steps that accept at least 1 drafted token, then at least 2, and so
        on; empty: not known. The sum is `tokens_per_step` - 1, unless the limit of an output cut
        off tokens of its last step.
    outputs, tokens: how many outputs were counted, and how many tokens they have in all, without
        the first token of each output; None: not known.
    """

    drafts_checked: int
    tokens_per_step: Measured
    accepted: tuple[Measured, ...] = ()
    outputs: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        checked, tokens = self.drafts_checked, self.tokens_per_step.value
        if checked > _MOST_DRAFTS_CHECKED:
            raise ValueError(
                f"drafts_checked: given {reprlib.repr(checked)}, allowed: at most "
                f"{_MOST_DRAFTS_CHECKED:,}"
            )
        if not 1 <= tokens <= checked + 1:
            raise ValueError(
                f"tokens_per_step: given {tokens:g}, allowed: 1 to {checked + 1}, as a step yields "
                f"at most the {checked} drafts that it checks and the target's own token"
            )
        shares = [share.value for share in self.accepted]
        falls = all(later <= share for share, later in pairwise((1.0, *shares, 0.0)))
        if shares and not (len(shares) == checked and falls):
            raise ValueError(
                f"accepted: given {shares!r:.80}, allowed: {checked} shares of all steps, from 1 "
                "to 0, none above the one before"
            )


Windows = tuple[WindowAcceptance, ...]


@dataclass(frozen=True, kw_only=True)
class DraftAcceptance:
    """How many tokens of one draft the target accepts.

    method: the drafting method by its name in the catalogue of releases, such as `eagle3`;
        `not known` if the source lacks it.
    draft: Hugging Face id or folder of the draft model; n-gram drafting has none, so the text says
        how many tokens it looks up.
    classes: by prompt class, one entry for each number of drafted tokens that a step may check.
    """

    method: str
    draft: str
    draft_revision: str | None = None
    classes: Mapping[str, Windows]

    def __post_init__(self) -> None:
        for key in ("method", "draft", "draft_revision"):
            _check_names(key, getattr(self, key))
        _check_names("classes", *self.classes)


@dataclass(frozen=True, kw_only=True)
class AcceptanceProfile:
    """How many tokens of one or more drafts a target accepts.

    target: Hugging Face id or folder of the target model.
    source: where the figures are from, in words.
    temperature: the temperature at which the target's outputs were made; None: not known.
    text_sha256: the hash of these outputs' texts (`text_hash`); None: not known.
    target_token_included: always true: tokens per step include the target's own token.
    """

    schema: str = "draftworth.acceptance/1"
    target: str
    source: str
    target_revision: str | None = None
    temperature: float | None = None
    text_sha256: str | None = None
    target_token_included: Literal[True] = True
    drafts: tuple[DraftAcceptance, ...]

    def __post_init__(self) -> None:
        for key in ("target", "source", "target_revision"):
            _check_names(key, getattr(self, key))


def text_hash(output_hashes: Iterable[str]) -> str:
    """Return one hash of a set of texts, made of each text's SHA-256; their order has no effect."""
    return hashlib.sha256("\n".join(sorted({*output_hashes})).encode()).hexdigest()


def load_profile(data: bytes) -> AcceptanceProfile:
    """Parse a profile; raise RecordError if it is wrong, or is the output of `estimate --json`."""
    if b'"draft_folder"' in data:
        raise RecordError(_ESTIMATE_IS_NO_PROFILE)
    return load_record(AcceptanceProfile, data)
