"""Folders of the models that read outputs: which they are, and whether they can be models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.experiment.model import beside
from draftworth.experiment.variants import LocalSpeculative
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal
from pods.teacher_forcing.memory import fits


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


def check_tokenizer(folder: Path, *, given_by: str) -> None:
    """Raise UserInputError, before anything is read, where a folder cannot hold a tokenizer."""
    _check_has(folder, _TOKENIZERS, "a tokenizer", given_by)


def check_model(folder: Path, *, given_by: str) -> None:
    """Raise UserInputError, before anything is read, where a folder cannot hold a whole model."""
    check_tokenizer(folder, given_by=given_by)
    _check_has(folder, ("config.json",), "a model's configuration", given_by)
    _check_has(folder, ("*.safetensors",), "a model's weights", given_by)


def can_read(folder: Path) -> bool:
    """Whether a folder has a whole model that fits into the free memory, not a tokenizer alone."""
    has_all = all(any(folder.glob(name)) for name in ("config.json", "*.safetensors"))
    return has_all and fits(folder)


def shown(folder: Path) -> str:
    """A model's folder for a reader: relative to the current one where it lies below that."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")


def _check_has(folder: Path, names: Sequence[str], what: str, given_by: str) -> None:
    """That one of the files is there."""
    if not folder.is_dir():
        raise UserInputError(
            f"{given_by}: given {shown(folder)}, where no folder is; allowed: a model's folder; "
            "next: check the path, or download the model there"
        )
    if not any(found.is_file() for name in names for found in folder.glob(name)):
        raise UserInputError(
            f"{given_by}: given {shown(folder)}, a folder without {what}; allowed: one with "
            f"{' or '.join(names)}; next: copy or download the whole model again"
        )
