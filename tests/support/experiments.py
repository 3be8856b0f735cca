"""Experiment files for tests: a good one, and one with a few keys changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

Edit = Callable[[dict[str, Any]], object]


def shipped(name: str) -> dict[str, Any]:
    """The data of a shipped experiment file."""
    data: dict[str, Any] = yaml.safe_load((ROOT / "experiments" / f"{name}.yaml").read_text())
    data["workload"]["prompts_dir"] = str(ROOT / "prompts")
    return data


def write_experiment(folder: Path, edit: Edit, *, base: str = "qwen3-32b") -> Path:
    """A copy of a shipped experiment with `edit` applied to its data, as a file."""
    data = copy.deepcopy(shipped(base))
    edit(data)
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def put(*key: str | int, value: Any) -> Edit:
    """An edit: set the value at a key."""

    def edit(data: dict[str, Any]) -> None:
        node: Any = data
        for part in key[:-1]:
            node = node[part]
        node[key[-1]] = value

    return edit


def drop(*key: str | int) -> Edit:
    """An edit: remove a key."""

    def edit(data: dict[str, Any]) -> None:
        node: Any = data
        for part in key[:-1]:
            node = node[part]
        del node[key[-1]]

    return edit


def both(*edits: Edit) -> Edit:
    """Several edits, one after the other."""

    def edit(data: dict[str, Any]) -> None:
        for one in edits:
            one(data)

    return edit
