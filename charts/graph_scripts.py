"""The ConfigMap with the programs that run before and beside vLLM, as one zip file in a volume.

The Neuron images have Python and boto3, so they can run the programs from a volume, and we need not
build images that contain the programs. Python can run a zip file directly, and its child processes,
such as vLLM, do not get our modules on their import path (docs/decisions/0006-compiled-graphs.md).
"""

import base64
import io
from functools import cache
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.content_names import content_name
from charts.names import NAMESPACE, experiment_labels
from charts.shipped import ROOT, SERVING_POD, source_files
from draftworth.planning.resolved import ResolvedNeuron

PROGRAMS_FILE = "programs.pyz"
# This file is put at the root of the zip file, where Python runs `__main__.py`.
_MAIN = "pods/compiled_graphs/__main__.py"


class GraphScriptsChart(cdk8s.Chart):
    """The ConfigMap with the programs that run before and beside vLLM; all variants use it.

    Its name has a hash of the programs' sources. It is in a chart of its own because the size of a
    chart is limited (`stacks/constructs/applied_charts.py`): the programs are large, and so is the
    serving chart.
    """

    def __init__(self, scope: Construct, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, id_, labels=experiment_labels(experiment.name))
        # The ConfigMap is not immutable. A machine with another version of zlib makes other bytes
        # of the same programs, but the same name, and Kubernetes would refuse to change the bytes
        # of an immutable object. As the name stays, the change replaces no pod.
        k8s.KubeConfigMap(
            self,
            "Programs",
            metadata=k8s.ObjectMeta(name=programs_name(), namespace=NAMESPACE),
            binary_data={PROGRAMS_FILE: base64.b64encode(zipped(_sources())).decode()},
        )


@cache
def _sources() -> dict[str, str]:
    files = {"__main__.py": _MAIN, **{file: file for file in source_files(SERVING_POD)}}
    return {path: (ROOT / file).read_text(encoding="utf-8") for path, file in files.items()}


def zipped(sources: dict[str, str]) -> bytes:
    """Return `sources` (text by path) as a zip file, whose bytes depend also on zlib's version."""
    archive = io.BytesIO()
    with ZipFile(archive, "w") as file:
        for path, text in sources.items():
            # A ZipInfo that is made from only a name has a fixed date, so the bytes stay the same.
            file.writestr(ZipInfo(path), text, ZIP_DEFLATED)
    return archive.getvalue()


@cache
def programs_name() -> str:
    """Return the name of the ConfigMap with the programs."""
    return content_name("graph-scripts", _sources())
