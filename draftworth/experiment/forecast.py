"""Reads the file that `search.forecast` names: each draft's expected tokens per step.

`draftworth estimate EXPERIMENT --json` prints the file; only keys that a search needs are read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Self

import pydantic

from draftworth.errors import DraftworthError, Problem, counted, suggestion
from draftworth.experiment.model import Experiment, beside
from draftworth.experiment.search import Search
from draftworth.experiment.variants import Variant
from draftworth.records.codec import load_value
from draftworth.untrusted import MIB, read_file

# Twice the size of what `estimate` prints for 32 drafts at 5 loads.
LIMIT_BYTES = 4 * MIB
MAX_CLASSES = 1000
# Expected tokens a step of the candidates in the file: variant name -> prompt class -> tokens.
Forecast = Mapping[str, Mapping[str, float]]

_ALLOWED = "a file with what `python -m draftworth estimate EXPERIMENT --json` printed for this one"
_NEXT = (
    "next: leave the key out, run `python -m draftworth estimate EXPERIMENT --json > FILE`, then "
    "name FILE here"
)


class _Printed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        strict=True, frozen=True, extra="ignore", allow_inf_nan=False
    )


class _Tokens(_Printed):
    value: Annotated[float, pydantic.Field(ge=1)]


class _Window(_Printed):
    window: int
    drafts_checked: int
    tokens_per_step: dict[str, _Tokens]

    @pydantic.field_validator("tokens_per_step", mode="before")
    @classmethod
    def _not_too_many_classes(cls, given: object) -> object:
        """Refuse a long mapping before pydantic checks each entry and keeps an error for each."""
        if isinstance(given, dict) and len(given) > MAX_CLASSES:
            raise ValueError(f"{len(given)} prompt classes, allowed: at most {MAX_CLASSES}")
        return given

    @pydantic.model_validator(mode="after")
    def _no_more_than_a_step_can_yield(self) -> Self:
        if any(t.value > self.drafts_checked + 1 for t in self.tokens_per_step.values()):
            raise ValueError("a step yields more tokens than it checks drafts, and one")
        return self


class _Draft(_Printed):
    target: str
    draft_folder: str | None
    """None: n-gram drafting, of which a search has no candidate"""
    windows: Annotated[list[_Window], pydantic.FailFast()]


_FILE = pydantic.TypeAdapter(
    Annotated[list[_Draft], pydantic.Field(min_length=1), pydantic.FailFast()]
)


def read_forecast(experiment: Experiment, path: Path) -> Forecast | Problem:
    """Return the candidates' forecast, or the file's problem; empty if the search names no file."""
    search = experiment.search
    if search is None or search.forecast is None:
        return {}
    try:
        data = read_file(beside(path, search.forecast), LIMIT_BYTES)
        drafts = _FILE.validate_python(load_value(data))
    except OSError as error:
        return _problem(search, f"it cannot be read: {error.strerror}")
    except pydantic.ValidationError as error:
        found = error.errors()[0]
        place = ".".join(map(str, found["loc"])) or "the whole file"
        return _problem(search, f"it is another kind of file: {place}: {found['msg']}")
    except DraftworthError as error:
        return _problem(search, f"it is another kind of file: {error}")
    return _of_the_candidates(experiment, search, drafts)


def _problem(search: Search, reason: str) -> Problem:
    return Problem(
        key=("search", "forecast"),
        given=f'"{search.forecast}"',
        allowed=_ALLOWED,
        reason=f"{reason}; {_NEXT}",
    )


def _of_the_candidates(
    experiment: Experiment, search: Search, drafts: Sequence[_Draft]
) -> Forecast | Problem:
    target = experiment.target.given
    names = {PurePath(draft.given).name: draft.given for draft in search.drafts}
    found: dict[str, Mapping[str, float]] = {}
    for draft in drafts:
        if draft.draft_folder is None:
            continue
        if draft.target != target:
            return _problem(search, f"it is of the target {draft.target}, and this one is {target}")
        name = _name_in(draft.draft_folder, names)
        if name is None:
            nearest = suggestion(PurePath(draft.draft_folder).name, names)
            return _problem(
                search,
                f"it tells of the draft {draft.draft_folder}, and the search has "
                f"{', '.join(names)} (a folder that is called so, or lies in one){nearest}",
            )
        candidates = (v for v in experiment.served_variants if v.given_draft == names[name])
        for candidate in candidates:
            tokens = _tokens_of(experiment, candidate, draft)
            if isinstance(tokens, str):
                return _problem(search, tokens)
            found[candidate.name] = tokens
    return found


def _name_in(folder: str, names: Mapping[str, str]) -> str | None:
    """Return the innermost part of a folder's path that is a key of `names`; None without one.

    Of `models--OWNER--NAME`, a folder in the Hugging Face cache, only NAME is compared.
    """
    parts = (part.rpartition("--")[2] for part in reversed(PurePath(folder).parts))
    return next((part for part in parts if part in names), None)


def _tokens_of(
    experiment: Experiment, candidate: Variant, draft: _Draft
) -> Mapping[str, float] | str:
    """Return a candidate's tokens per step by prompt class, or a text on what the file lacks.

    Windows are matched by `drafts_checked`, which can differ between releases for one window.
    """
    checked = experiment.max_tokens_per_step(candidate) - 1
    window = next((w for w in draft.windows if w.drafts_checked == checked), None)
    if window is None:
        return (
            f"it does not tell of {draft.draft_folder} with window {candidate.window}, of which a "
            f"step checks {counted(checked, 'draft')}"
        )
    classes = [prompt_class.name for prompt_class in experiment.workload.classes]
    if missing := [name for name in classes if name not in window.tokens_per_step]:
        return f"it does not tell of the prompt class {missing[0]}"
    return {name: window.tokens_per_step[name].value for name in classes}
