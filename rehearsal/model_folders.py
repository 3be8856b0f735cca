"""Folders of the models that read outputs: which they are, and whether they can be models."""

from __future__ import annotations

from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.experiment.model import beside
from draftworth.experiment.variants import LocalSpeculative
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal


def own_drafts(experiment: ResolvedExperiment) -> list[Path]:
    """The experiment's drafts; raises UserInputError where they are models of the hub."""
    specs = [v.spec for v in experiment.variants if isinstance(v.spec, LocalSpeculative)]
    if not specs:
        raise UserInputError(
            f"{experiment.path}: its drafts are models of the hub; next: download one and give its "
            "folder: --draft DIR"
        )
    return list(dict.fromkeys(beside(experiment.path, spec.draft.path) for spec in specs))


def own_target(experiment: ResolvedExperiment) -> Path:
    """The experiment's target; raises UserInputError where it is a model of the hub."""
    if not isinstance(experiment, ResolvedLocal):
        raise UserInputError(
            f"{experiment.path}: its target is a model of the hub; next: download its tokenizer "
            "(tokenizer.json, tokenizer_config.json, chat template) and give the folder: "
            "--target DIR"
        )
    return beside(experiment.path, experiment.spec.target.path)
