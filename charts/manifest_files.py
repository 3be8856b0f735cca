"""Writes Kubernetes objects as YAML files.

Placeholders stand for values that are not known, such as the names of buckets.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from draftworth.errors import DraftworthError
from draftworth.safe_writing import write_file

# The widest line that the dumper takes, so that it breaks none.
_WIDTH = 2**31 - 1
# A Kubernetes object, or a part of one, as plain data.
Object = dict[str, Any]


def placeholder(variable: str) -> str:
    """Return `${variable}`, which `envsubst` replaces by the variable's value."""
    return f"${{{variable}}}"


def missing_variables(text: str, variables: Iterable[str]) -> list[str]:
    """Return those of `variables` whose placeholder is in `text`: a user must set them.

    variables: names of environment variables.
    """
    return [variable for variable in variables if placeholder(variable) in text]


def filled_by(missing: Sequence[str]) -> str:
    """Return ` envsubst ... |`, the part of a shell pipe that replaces placeholders by values.

    missing: the environment variables with the values; if there are none, "" is returned.
    """
    # envsubst may replace only these variables: programs in the manifests have $ signs too.
    return f" envsubst '{' '.join(map(placeholder, missing))}' |" if missing else ""


def write_files(
    out: Path, contents: Mapping[str, bytes], private: Collection[str] = ()
) -> list[Path]:
    """Write `contents` (bytes by file name) into the folder `out`; return the paths of the files.

    If the folder is missing, it is created. It raises DraftworthError if a file cannot be written.
    private: the names of files that hold prompts; only their owner may read them.
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


class _Dumper(yaml.CSafeDumper):
    """Writes YAML: text of several lines as a block, and repeated content without aliases.

    `yaml.SafeDumper`, which is not written in C, would take ten times as long.
    """

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (whatever it is)
        return True


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(objects: Sequence[Mapping[str, Any]]) -> str:
    """Return the objects as YAML documents."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=_WIDTH
    )
