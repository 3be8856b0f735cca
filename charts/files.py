"""Writes Kubernetes objects as YAML files; placeholders stand for values that are not known."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from draftworth.errors import DraftworthError
from draftworth.records.checkpoints import replace_file


def placeholder(variable: str) -> str:
    """Return `${variable}`, which `envsubst` replaces by the variable's value."""
    return f"${{{variable}}}"


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files into `out`, which is created if missing; other files in it stay unchanged.

    Raises:
        DraftworthError: a file cannot be written.
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
    """Writes text of several lines as a block, and repeated content without YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (whatever it is)
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return the objects as YAML documents."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=sys.maxsize
    )
