"""Reads and makes acceptance profiles for `draftworth estimate` (`--acceptance`, `--profile`)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from draftworth import __version__
from draftworth.errors import UserInputError
from draftworth.estimate.forecast import WINDOWS, DraftEstimate, windows_of
from draftworth.estimate.profile_forms import read_profile
from draftworth.estimate.step_cost_sources import step_costs_of
from draftworth.estimate.target_outputs import TargetOutputs
from draftworth.experiment.candidate_forecast import name_in
from draftworth.experiment.catalog import NGRAM, catalog
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.records.acceptance_profile import (
    AcceptanceProfile,
    DraftAcceptance,
    name_of,
    text_hash,
)
from draftworth.records.step_costs import StepCostCard


def estimates_by_profile(
    experiment: ResolvedExperiment,
    path: Path,
    weights: Mapping[str, float],
    card: StepCostCard | None,
) -> Iterator[DraftEstimate]:
    """Yield an estimate of what a token costs with each draft in an acceptance profile.

    path: the file of the profile.
    weights: each class's share of the output tokens. If the profile has none of these classes, the
    classes that it has get equal weights.
    card: the step costs that a run measured for the experiment's drafting method; there is an
    estimate for each of its loads. None: one estimate is made with published step costs.
    UserInputError: step costs are unknown, or the profile has no window that the method can serve.
    """
    profile = read_profile(path)
    drafting = [v.spec.method for v in experiment.variants if v.draft]
    method = drafting[0] if drafting else NGRAM
    windows = windows_of(experiment, method) if drafting else {w: w for w in WINDOWS}
    if card is None and catalog().methods[method].step_cost_per_draft is None:
        raise UserInputError(
            f"--card: given nothing, allowed: the step-cost card of a run with {method}, because "
            "nobody has published what its steps cost"
        )
    for draft in profile.drafts:
        alike = dict.fromkeys(draft.classes, 1.0)
        for costs in step_costs_of(card, method):
            estimate = DraftEstimate(
                target=profile.target,
                method=draft.method,
                draft=draft.draft,
                acceptance=draft.classes,
                weights=weights if weights.keys() & alike.keys() else alike,
                windows=windows,
                step_costs=costs,
                source=f"Acceptance of {profile.target} by {profile.source}",
            )
            if not estimate.forecasts:
                raise UserInputError(
                    f"{path}: {draft.draft}: given other windows, allowed: "
                    f"{min(windows.values())} to {max(windows.values())} drafts checked, which a "
                    f"step of {method} can have, the same in each class"
                )
            yield estimate


def profile_of(
    experiment: ResolvedExperiment, source: TargetOutputs, estimates: Sequence[DraftEstimate]
) -> AcceptanceProfile:
    """Return the acceptance profile of the drafts that were estimated from outputs."""
    target = experiment.spec.target
    sampling = source.run.result if source.run else experiment.spec.workload
    hashes = (hashlib.sha256(output.text.encode()).hexdigest() for output in source.outputs)
    return AcceptanceProfile(
        target=name_of(target.id_or_path),
        target_revision=target.revision if isinstance(target, HubModel) else None,
        source=f"draftworth {__version__}, an estimate of {experiment.name}",
        temperature=float(sampling.temperature),
        text_sha256=text_hash(hashes),
        drafts=tuple(_drafts_of(experiment, estimates)),
    )


def _drafts_of(
    experiment: ResolvedExperiment, estimates: Sequence[DraftEstimate]
) -> Iterator[DraftAcceptance]:
    """Yield the acceptance of each draft, once for all loads.

    A draft whose folder has the name of one of the experiment's Hugging Face models is named by
    that model's id.
    """
    models = (v.spec.hub_draft for v in experiment.variants)
    hub = {PurePath(model.id_or_path).name: model for model in models if model}
    for estimate in {each.draft: each for each in estimates}.values():
        model = hub.get(name_in(estimate.draft, hub) or "")
        yield DraftAcceptance(
            method=estimate.method,
            draft=name_of(model.id_or_path if model else estimate.draft),
            draft_revision=model.revision if model else None,
            classes=estimate.acceptance,
        )
