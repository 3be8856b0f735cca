"""The experiment file's search: drafts and windows to try, and when to stop.

A search expands to candidates: variants with generated names, which use the same slot in turn.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from draftworth.errors import Key
from draftworth.experiment import strict_model, variants
from draftworth.experiment.catalog import Method, catalog

Draft = variants.HubModel | variants.LocalModel
# One CloudFormation template (1 MB at most) has room for this many servers and their IAM roles.
MAX_CANDIDATES = 32


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a variant or a search's candidate stands in the experiment file, for messages.

    whole: the key path of the variant, such as ("variants", 0), or of the candidate's draft.
    parts: {field of a variant: its key path}, for fields that are not below `whole`. For example,
        a candidate's `window` comes from ("search", "windows").
    """

    whole: Key
    parts: Mapping[str, Key] = field(default_factory=dict)

    def at(self, part: str, *rest: str) -> Key:
        return (*self.parts.get(part, (*self.whole, part)), *rest)


def _windows(windows: Any) -> Any:
    if not isinstance(windows, str):
        return windows
    if re.fullmatch(strict_model.PATTERNS["windows"], windows):
        first, last = map(int, windows.split(".."))
        if 1 <= first <= last <= variants.MAX_WINDOW:
            return tuple(range(first, last + 1))
    words = (
        "FIRST..LAST, as in 3..15 (FIRST not above LAST), or a list of whole numbers: each from 1 "
        "to {most}"
    )
    raise PydanticCustomError("windows", words, {"most": variants.MAX_WINDOW})


WindowsText = Annotated[str, Field(pattern=strict_model.PATTERNS["windows"])]
WindowList = Annotated[tuple[variants.Window, ...], Field(min_length=1)]
Windows = Annotated[
    WindowList,
    strict_model.EachOnce,
    BeforeValidator(_windows, json_schema_input_type=WindowsText | WindowList),
]
NumberOfDrafts = Field(min_length=1, max_length=MAX_CANDIDATES)


class Stop(strict_model.StrictModel):
    """Conditions; a search ends when the first of them is met."""

    last_start_usd: strict_model.PositiveFloat | None = None
    """no candidate begins once accelerator nodes have cost this many US dollars; the bill is higher
    by what the last one takes: aws.accelerator_budget_usd bounds it"""
    last_start_hours: strict_model.PositiveFloat | None = None
    """no candidate begins once the search has lasted this many hours"""
    within_percent: Annotated[float, Field(ge=0.1, le=50)] = 3.0
    """no other candidate is likely to be cheaper than the best one by more than this many percent
    of the best one's cost per token"""
    tokens_per_day: strict_model.PositiveFloat | None = None
    """output tokens of your traffic in a day: a search costs no more than it may save"""
    days: strict_model.PositiveFloat = 30
    """days over which savings are counted"""


class Search(strict_model.StrictModel):
    """A search over each draft with each window."""

    method: str = Field(json_schema_extra={"enum": [*catalog().methods_with_draft]})
    """how tokens are drafted"""
    drafts: tuple[Draft, ...]
    windows: Windows | None = None
    """num_speculative_tokens, FIRST..LAST or a list; left out if each draft has its own window"""
    forecast: Annotated[str, Field(min_length=1)] | None = None
    """file that `draftworth estimate --profile FILE` writes, relative to the experiment
    file; this acceptance profile tells what drafts yield, so fewer candidates are measured"""
    stop: Stop = Stop()
    """conditions that end the search"""

    @property
    def method_facts(self) -> Method | None:
        """The catalogue's entry of `method`; None if `method` is unknown or needs no draft."""
        return catalog().methods_with_draft.get(self.method)

    @property
    def has_fixed_windows(self) -> bool:
        """Whether each draft was trained for one window, so that the search varies only drafts."""
        return self.method_facts is not None and self.method_facts.fixed_window

    def windows_of(self, draft: Draft) -> tuple[int, ...]:
        if not self.has_fixed_windows:
            return self.windows or ()
        return (draft.facts.window,) if draft.facts and draft.facts.window else ()

    def candidates(
        self, by_hand: Iterable[variants.Variant]
    ) -> Iterator[tuple[Place, variants.Variant]]:
        """Yield (place in the file, candidate) for each draft with each window.

        by_hand: the variants that the file lists; a candidate that decodes like one of them is left
        out. Two mistakes in a search raise no error here; `broken_rules` reports them later.
        If two drafts lead to the same names (`name_stem`), only the first has candidates. If the
        search's method is unknown or needs no draft, there are no candidates.
        """
        decodings = {variant.decoding for variant in by_hand}
        stems = [variants.name_stem(draft.id_or_path) for draft in self.drafts]
        for index, draft in enumerate(self.drafts if self.method_facts else ()):
            for window in self.windows_of(draft) if stems.index(stems[index]) == index else ():
                candidate = self._candidate(draft, window)
                if candidate.decoding not in decodings:
                    yield self._place(index), candidate

    def _candidate(self, draft: Draft, window: int) -> variants.Variant:
        if isinstance(draft, variants.HubModel):
            return variants.HubSpeculative(method=self.method, window=window, draft=draft)
        return variants.LocalSpeculative(method=self.method, window=window, draft=draft)

    def _place(self, index: int) -> Place:
        draft: Key = ("search", "drafts", index)
        window: Key = draft if self.has_fixed_windows else ("search", "windows")
        parts = {"method": ("search", "method"), "window": window, "draft": draft, "name": draft}
        return Place(whole=draft, parts=parts)


class HubSearch(Search):
    """A search over drafts of the model hub."""

    drafts: Annotated[tuple[variants.HubModel, ...], NumberOfDrafts]
    """draft models or heads, each tried with each window"""


class LocalSearch(Search):
    """A search over draft folders on this machine."""

    drafts: Annotated[tuple[variants.LocalModel, ...], NumberOfDrafts]
    """draft models, each tried with each window"""
