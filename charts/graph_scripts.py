"""The ConfigMap with the programs that run before and beside vLLM, as one zip file in a volume.

The Neuron images have an interpreter and boto3; the programs come from here, so no image of ours is
built on theirs. Python runs a zip file as it is and puts nothing on the path of a process that it
starts (docs/decisions/0006-compiled-graphs.md).
"""

import base64
import io
from functools import cache
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import cdk8s
from constructs import Construct

from charts import k8s
from charts.names import content_name, experiment_labels
from charts.pods import metadata
from charts.shipped import ROOT, SERVING_POD, source_files
from draftworth.planning.resolved import ResolvedNeuron

MOUNT_PATH = "/opt/draftworth"
PROGRAMS = "programs.pyz"
VOLUME_NAME = "graph-scripts"
# Python runs the `__main__.py` at the root of a zip file.
_MAIN = "pods/compiled_graphs/__main__.py"


def graph_scripts_chart(scope: Construct, *, experiment: ResolvedNeuron) -> cdk8s.Chart:
    """Make the ConfigMap, named by the programs' sources: the same for every variant.

    It is a chart of its own because the programs take much of CloudFormation's event of an update
    (`stacks/constructs/applied_charts.py`), and the serving chart grows with the variants.
    """
    chart = cdk8s.Chart(scope, "graph-scripts", labels=experiment_labels(experiment))
    # Not immutable: another version of zlib compresses the same programs to other bytes, and
    # Kubernetes would refuse a deploy from that machine. No pod is replaced for them.
    k8s.KubeConfigMap(
        chart,
        "programs",
        metadata=metadata(_name()),
        binary_data={PROGRAMS: base64.b64encode(zipped(_sources())).decode()},
    )
    return chart


def graph_scripts_volume() -> k8s.Volume:
    """The volume of the ConfigMap, which is in the cluster before the servers."""
    return k8s.Volume(name=VOLUME_NAME, config_map=k8s.ConfigMapVolumeSource(name=_name()))


def graph_scripts_mount() -> k8s.VolumeMount:
    """Read-only, in the server's container and in the one beside it."""
    return k8s.VolumeMount(name=VOLUME_NAME, mount_path=MOUNT_PATH, read_only=True)


def program(name: str) -> list[str]:
    """Return the command that runs `start` or `upload` in a pod."""
    return ["python3", f"{MOUNT_PATH}/{PROGRAMS}", name]


@cache
def _sources() -> dict[str, str]:
    files = {"__main__.py": _MAIN, **{file: file for file in source_files(SERVING_POD)}}
    return {path: (ROOT / file).read_text(encoding="utf-8") for path, file in files.items()}


def zipped(sources: dict[str, str]) -> bytes:
    """Return the texts as a zip file that depends on nothing else but the version of zlib."""
    archive = io.BytesIO()
    with ZipFile(archive, "w") as file:
        for path, text in sources.items():
            # A ZipInfo that is made of a name alone has a fixed date.
            file.writestr(ZipInfo(path), text, ZIP_DEFLATED)
    return archive.getvalue()


@cache
def _name() -> str:
    return content_name("graph-scripts", _sources())
