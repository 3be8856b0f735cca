"""Kubernetes objects as YAML files that a person can read, with what is to be filled in."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from draftworth.errors import DraftworthError
from draftworth.records.checkpoints import replace_file


def placeholder(variable: str) -> str:
    """Text that `envsubst` replaces by an environment variable."""
    return f"${{{variable}}}"


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, made when missing; other files in it are left alone.

    Raises:
        DraftworthError: one cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        return [replace_file(out / name, data) for name, data in contents.items()]
    except OSError as error:
        raise DraftworthError(
            f"{out}: cannot write manifests: {error.strerror}; next: --out with a folder that can "
            "be written, or with a name that is free"
        ) from error


class _Dumper(yaml.SafeDumper):
    """Several lines of text as a block that can be read; nothing stands for another's content."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (whatever it is)
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(objects: Sequence[Mapping[str, Any]]) -> str:
    """One document an object."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=sys.maxsize
    )
