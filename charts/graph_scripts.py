"""The ConfigMap with the programs that run before and beside vLLM, as a volume.

The Neuron images have an interpreter and boto3; the programs come from here, so no image of ours is
built on theirs. A ConfigMap's keys have no slashes, so each file has its module's name, by which
`pods/flat_folder.py` finds it: a path for each file would stand in the template once a server.
"""

from __future__ import annotations

import ast
from functools import cache

import cdk8s
from constructs import Construct

from charts import k8s
from charts.names import content_name, experiment_labels
from charts.pods import metadata
from charts.shipped import ROOT, SERVING_POD, source_files
from draftworth.planning.resolved import ResolvedNeuron

MOUNT_PATH = "/opt/draftworth"
VOLUME_NAME = "graph-scripts"
PROGRAM = "pods/flat_folder.py"
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class GraphScriptsChart(cdk8s.Chart):
    """The ConfigMap, named by its content: the same for every variant.

    A chart of its own: the programs are most of what CloudFormation's event of an update can hold
    (`stacks/manifest_size.py`), and the servers are the part that grows with the variants.
    """

    def __init__(self, scope: Construct, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(
            scope, id_, disable_resource_name_hashes=True, labels=experiment_labels(experiment)
        )
        k8s.KubeConfigMap(
            self,
            "programs",
            metadata=metadata(_name()),
            immutable=True,
            data=_sources(),
        )


def graph_scripts_volume() -> k8s.Volume:
    """The programs, with their `__main__.py`."""
    return k8s.Volume(name=VOLUME_NAME, config_map=k8s.ConfigMapVolumeSource(name=_name()))


def graph_scripts_mount() -> k8s.VolumeMount:
    """Read-only, in the server's container and in the one beside it."""
    return k8s.VolumeMount(name=VOLUME_NAME, mount_path=MOUNT_PATH, read_only=True)


@cache
def _sources() -> dict[str, str]:
    """Texts by their names in the mount; `python3 MOUNT_PATH` runs the `__main__.py` there."""
    return {
        "__main__.py" if file == PROGRAM else file.replace("/", "."): without_prose(
            (ROOT / file).read_text(encoding="utf-8")
        )
        for file in source_files(SERVING_POD)
    }


def without_prose(source: str) -> str:
    """A program without docstrings, comment lines and empty lines; its code as it stands.

    A third less for CloudFormation to carry, in a template and in the event of an update. Not by
    `ast.unparse`, which may write for a newer Python than the image's.
    """
    lines: list[str | None] = [*source.splitlines()]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            first = node.body[0]
            alone = len(node.body) == 1 and not isinstance(node, ast.Module)
            lines[first.lineno - 1] = f"{' ' * first.col_offset}pass" if alone else None
            for number in range(first.lineno, first.end_lineno or first.lineno):
                lines[number] = None
    kept = (line for line in lines if line and line.strip() and not line.lstrip().startswith("#"))
    return "".join(f"{line}\n" for line in kept)


@cache
def _name() -> str:
    return content_name("graph-scripts", _sources())
