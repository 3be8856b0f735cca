"""The lists of the files, mostly whole folders, that each pod and Lambda function gets.

Image, function packages and the ConfigMap of the serving pods are built from these lists, and
`docs/architecture.md` shows them (a test checks it). The listed folders of `draftworth` need only
the standard library, with two exceptions: `draftworth/measuring` needs `httptools`, and
`draftworth/report` needs libraries for templates and plots, which are imported at the end of a run.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_RECORDS = (
    "draftworth/__init__.py",
    "draftworth/errors.py",
    "draftworth/safe_writing.py",
    "draftworth/speculation.py",
    "draftworth/untrusted.py",
    "draftworth/records",
)

_FUNCTION = (
    *_RECORDS,
    "lambdas/__init__.py",
    "lambdas/runtime.py",
    "lambdas/s3_document.py",
)

CAPACITY_CONTROLLER = (*_FUNCTION, "lambdas/capacity_controller")
METRICS_PUBLISHER = (
    *_FUNCTION,
    "draftworth/metrics",
    "lambdas/metrics_publisher",
)
# These are single files and not the whole folder `records`, because the serving pods get them in a
# ConfigMap. When that is updated, one event of CloudFormation has its old and its new content, and
# the size of an event is limited (`stacks/constructs/applied_charts.py`).
SERVING_POD = (
    "draftworth/__init__.py",
    "draftworth/child_processes.py",
    "draftworth/errors.py",
    "draftworth/safe_writing.py",
    "draftworth/neuron_versions.py",
    "draftworth/untrusted.py",
    "draftworth/records/__init__.py",
    "draftworth/records/graph_manifests.py",
    "draftworth/records/checkpoints.py",
    "draftworth/records/codec.py",
    "draftworth/records/servers.py",
    "pods/__init__.py",
    "pods/log.py",
    "pods/compiled_graphs",
)
# One image for the measuring Job, the checkpoint stager and the canary.
MEASURING_IMAGE = (
    *_RECORDS,
    "draftworth/image_registry.py",
    "draftworth/terminal.py",
    "draftworth/analysis",
    "draftworth/decision",
    "draftworth/metrics",
    "draftworth/measuring",
    "draftworth/report",
    "draftworth/searching",
    "pods/__init__.py",
    "pods/log.py",
    "pods/canary",
    "pods/checkpoint_stager",
    "pods/measuring",
)

SHIPPED: Mapping[str, tuple[str, ...]] = {
    "capacity controller": CAPACITY_CONTROLLER,
    "metrics publisher": METRICS_PUBLISHER,
    "serving pods": SERVING_POD,
    "measuring Job, checkpoint stager and canary": MEASURING_IMAGE,
}


def source_files(shipped: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths of all files in `shipped`, relative to the root of the repository.

    shipped: files and folders, such as `SERVING_POD`. Of a folder all files are yielded, sorted,
        except hidden ones and Python's caches; `stacks/assets.py` leaves out the same files.
    """
    for name in shipped:
        path = ROOT / name
        files = [path] if path.is_file() else sorted(filter(_travels, path.rglob("*")))
        yield from (file.relative_to(ROOT).as_posix() for file in files)


def _travels(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    is_left_out = any(part == "__pycache__" or part.startswith(".") for part in parts)
    return path.is_file() and not is_left_out
