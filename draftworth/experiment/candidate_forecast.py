"""Reads a search's forecast: its candidates' expected tokens per step, by prompt class.

The forecast is in the acceptance profile (a file of `draftworth estimate`) that the experiment's
key `search.forecast` names.
"""

from collections.abc import Collection, Mapping
from pathlib import Path, PurePath

from draftworth.errors import DraftworthError, Problem, counted, suggestion
from draftworth.experiment.catalog import NGRAM
from draftworth.experiment.model import Experiment, beside
from draftworth.experiment.search_settings import Search
from draftworth.experiment.variants import Variant
from draftworth.records import acceptance_profile
from draftworth.untrusted import read_file

# The candidates' expected tokens per step: {variant name: {prompt class: tokens}}.
Forecast = Mapping[str, Mapping[str, float]]

_ALLOWED = "an acceptance profile, which `draftworth estimate EXPERIMENT --profile FILE` writes"
_NEXT = (
    "next: leave the key out, run `draftworth estimate EXPERIMENT --profile FILE`, or "
    "`draftworth report RUN --profile FILE` of a run, then name FILE here"
)


def read_forecast(experiment: Experiment, path: Path) -> Forecast | Problem:
    """Return the expected tokens per step of a search's candidates, by variant and prompt class.

    path: of the experiment file. The result is empty if the experiment has no `search.forecast`,
    and a `Problem` if the file that this key names cannot be used.
    """
    search = experiment.search
    if search is None or search.forecast is None:
        return {}
    try:
        profile = acceptance_profile.load_profile(
            read_file(beside(path, search.forecast), acceptance_profile.LIMIT_BYTES)
        )
    except OSError as error:
        return _problem(search, f"it cannot be read: {error.strerror}")
    except DraftworthError as error:
        return _problem(search, f"it is another kind of file: {error}")
    return _of_the_candidates(experiment, search, profile)


def _problem(search: Search, reason: str) -> Problem:
    return Problem(
        key=("search", "forecast"),
        actual=f'"{search.forecast}"',
        allowed=_ALLOWED,
        reason=reason if "next: " in reason else f"{reason}; {_NEXT}",
    )


def _of_the_candidates(
    experiment: Experiment, search: Search, profile: acceptance_profile.AcceptanceProfile
) -> Forecast | Problem:
    target = experiment.target.id_or_path
    if profile.target != target:
        return _problem(search, f"it is of the target {profile.target}, and this one is {target}")
    temperature = float(experiment.workload.temperature)
    if profile.temperature not in (None, temperature):
        reason = (
            f"it is of temperature {profile.temperature:g}, and this workload has {temperature:g}"
        )
        return _problem(search, reason)
    names = {PurePath(draft.id_or_path).name: draft.id_or_path for draft in search.drafts}
    forecast: dict[str, Mapping[str, float]] = {}
    for draft in profile.drafts:
        if draft.method == NGRAM:  # no candidate of a search drafts by n-grams
            continue
        name = name_in(draft.draft, names)
        if name is None:
            nearest = suggestion(PurePath(draft.draft).name, names)
            return _problem(
                search,
                f"it tells of the draft {draft.draft}, and the search has "
                f"{', '.join(names)} (a folder that is called so, or lies in one){nearest}",
            )
        candidates = (v for v in experiment.served_variants if v.draft_id_or_path == names[name])
        for candidate in candidates:
            tokens = _tokens_of(experiment, candidate, draft)
            if isinstance(tokens, str):
                return _problem(search, tokens)
            forecast[candidate.name] = tokens
    return forecast


def name_in(folder: str, names: Collection[str]) -> str | None:
    """Return the last part of a folder's path that is one of `names`; None if no part is.

    Of `models--OWNER--NAME`, a folder in the Hugging Face cache, only NAME is compared.
    """
    parts = (part.rpartition("--")[2] for part in reversed(PurePath(folder).parts))
    return next((part for part in parts if part in names), None)


def _tokens_of(
    experiment: Experiment, candidate: Variant, draft: acceptance_profile.DraftAcceptance
) -> Mapping[str, float] | str:
    """Return a candidate's tokens per step by prompt class, or a sentence on what is missing.

    draft: what the profile says of the candidate's draft. The tokens are those of the profile's
    window with which a step checks as many drafted tokens as a step of the candidate. The windows
    themselves are not compared, because one release (serving image) checks all drafted tokens of a
    window, and another checks one fewer.
    """
    checked = experiment.max_tokens_per_step(candidate) - 1
    by_class = {}
    for name in (prompt_class.name for prompt_class in experiment.workload.classes):
        if name not in draft.classes:
            return f"it does not tell of the prompt class {name}"
        window = next((w for w in draft.classes[name] if w.drafts_checked == checked), None)
        if window is None:
            return (
                f"it does not tell of {draft.draft} with window {candidate.window}, of which a "
                f"step checks {counted(checked, 'draft')}"
            )
        by_class[name] = window.tokens_per_step.value
    return by_class
