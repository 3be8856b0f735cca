"""Folders of the models that read outputs: which they are, and whether they can be models.

A checkpoint that an experiment staged is downloaded into one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from draftworth.cli.runs import S3_SCHEME
from draftworth.errors import UserInputError
from draftworth.experiment.model import beside
from draftworth.experiment.naming import CHECKPOINTS_OUTPUT
from draftworth.experiment.variants import HubModel, LocalSpeculative
from draftworth.planning.resolved import ResolvedLocal, ResolvedNeuron
from pods.checkpoint_stager.files import is_weights
from pods.teacher_forcing.memory import fits

# Looked up where a checkpoint lies in S3: only then is AWS needed.
_S3_CHECKPOINT = "draftworth.account.s3"


def model_folder(
    place: str, below: Path, *, needs_weights: bool, say: Callable[[str], None]
) -> Path:
    """The folder that is named; of a staged checkpoint in S3 a checked copy, below `below`.

    Raises:
        DraftworthError: there is no whole checkpoint there, or it cannot be downloaded.
    """
    if not place.startswith(S3_SCHEME):
        return Path(place)
    folder: Path = importlib.import_module(_S3_CHECKPOINT).download_checkpoint(
        place,
        below / "checkpoints",
        wanted=lambda path: needs_weights or not is_weights(path),
        say=say,
    )
    return folder


def own_drafts(experiment: ResolvedNeuron | ResolvedLocal) -> list[Path]:
    """The experiment's drafts; raises UserInputError where they are models of the hub."""
    specs = [v.spec for v in experiment.variants if isinstance(v.spec, LocalSpeculative)]
    if isinstance(experiment, ResolvedNeuron):
        drafts = dict.fromkeys(
            f"--draft {_staged(draft)}"
            for v in experiment.variants
            if (draft := v.checkpoints.get("draft"))
        )
        raise UserInputError(
            f"{experiment.path}: its drafts are models of the hub; next: give the folder of a "
            f"downloaded one (--draft DIR), or where a deploy staged them: {' '.join(drafts)} "
            f"{_BUCKET}"
        )
    return list(dict.fromkeys(beside(experiment.path, spec.draft.path) for spec in specs))


def own_target(experiment: ResolvedNeuron | ResolvedLocal) -> Path:
    """The experiment's target; raises UserInputError where it is a model of the hub."""
    if isinstance(experiment, ResolvedNeuron):
        raise UserInputError(
            f"{experiment.path}: its target is a model of the hub; next: download its tokenizer "
            "(tokenizer.json, tokenizer_config.json, chat template) and give the folder "
            "(--target DIR), or where a deploy staged it: --target "
            f"{_staged(experiment.spec.target)} {_BUCKET}"
        )
    return beside(experiment.path, experiment.spec.target.path)


def _staged(model: HubModel) -> str:
    """Where a deploy puts a checkpoint, but for the bucket's name."""
    return f"{S3_SCHEME}BUCKET/{model.storage_prefix}"


_BUCKET = f"(BUCKET: the stack's output {CHECKPOINTS_OUTPUT})"


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
