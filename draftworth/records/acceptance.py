"""The acceptance profile: how many drafts a target accepts, as one JSON document to pass on.

`estimate --profile` and `report --profile` write it, a search and `estimate --acceptance` read it,
and `draftworth profile` converts it to and from the forms of other tools.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from draftworth.records.codec import RecordError, load_record
from draftworth.untrusted import MIB

# Twice the size of a profile of 32 drafts in three prompt classes with all windows to 15.
LIMIT_BYTES = 4 * MIB
_OF_AN_ESTIMATE = (
    "it is the output of `estimate --json`, which a search read before there were profiles; next: "
    "`draftworth estimate EXPERIMENT --profile FILE`, and name that file"
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A figure with its 95% interval over prompts; low and high are None without one."""

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        known = [end for end in (self.low, self.value, self.high) if end is not None]
        if sorted(known) != known:
            raise ValueError(f"given {known}, allowed: low <= value <= high")


@dataclass(frozen=True, kw_only=True)
class WindowAcceptance:
    """What steps yield in one prompt class, if each checks so many drafts at most.

    tokens_per_step: mean tokens of a step, the target's own token included.
    accepted: the share of all steps that accept the first draft, the first two, and so on; empty:
        not known. Their sum is `tokens_per_step` - 1, but for outputs whose last step is cut off.
    outputs, tokens: what was counted, without each output's first token; None: not known.
    """

    drafts_checked: int
    tokens_per_step: Measured
    accepted: tuple[Measured, ...] = ()
    outputs: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        checked, tokens = self.drafts_checked, self.tokens_per_step.value
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
    """The acceptance of one draft, by prompt class.

    method: as in the catalogue, or another tool's word.
    draft: hub id or folder; of n-gram drafting, how many tokens are looked up.
    """

    method: str
    draft: str
    draft_revision: str | None = None
    classes: Mapping[str, Windows]


@dataclass(frozen=True, kw_only=True)
class AcceptanceProfile:
    """What one target accepts of one or more drafts.

    target: hub id or folder. source: what made the figures, in words.
    temperature, text_sha256: of the target's outputs (`text_hash`); None: not known.
    target_token_included: the one way in which tokens a step are counted here.
    """

    schema: str = "draftworth.acceptance/1"
    target: str
    source: str
    target_revision: str | None = None
    temperature: float | None = None
    text_sha256: str | None = None
    target_token_included: Literal[True] = True
    drafts: tuple[DraftAcceptance, ...]


def text_hash(output_hashes: Iterable[str]) -> str:
    """Return the hash of a set of texts, whatever their order, from the SHA-256 of each."""
    return hashlib.sha256("\n".join(sorted({*output_hashes})).encode()).hexdigest()


def load_profile(data: bytes) -> AcceptanceProfile:
    """Read a profile; RecordError says what is wrong, or what to do with an estimate's JSON."""
    if b'"draft_folder"' in data:
        raise RecordError(_OF_AN_ESTIMATE)
    return load_record(AcceptanceProfile, data)
