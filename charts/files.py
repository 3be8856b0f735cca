"""Writes Kubernetes objects as YAML files, and the next steps that a user gets as text.

Placeholders stand for values that are not known, such as the names of buckets.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from charts.templates import filled
from draftworth.errors import DraftworthError
from draftworth.safe_writing import write_file


def placeholder(variable: str) -> str:
    """Return `${variable}`, which `envsubst` replaces by the variable's value."""
    return f"${{{variable}}}"


def next_steps(package: str, text: str, variables: Iterable[str], **values: Any) -> str:
    """Return a user's next steps as text, from the template `next_steps.txt.jinja` of a package.

    text: the content of all written files.
    variables: environment variables; the user must set those whose placeholders are in `text`.
    """
    missing = [variable for variable in variables if placeholder(variable) in text]
    # envsubst may replace only these variables: programs in the manifests have $ signs too.
    filling = f" envsubst '{' '.join(map(placeholder, missing))}' |" if missing else ""
    return filled(
        package, "next_steps.txt.jinja", values | {"missing": missing, "filling": filling}
    )


def write_files(
    out: Path, contents: Mapping[str, bytes], private: Collection[str] = ()
) -> list[Path]:
    """Write `contents` (bytes by file name) into the folder `out`; return the paths of the files.

    If the folder is missing, it is created. private: the names of files that hold prompts.
    """
    try:
        return [
            write_file(out / name, data, root=out, private=name in private)
            for name, data in contents.items()
        ]
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
