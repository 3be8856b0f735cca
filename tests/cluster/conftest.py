"""One control plane for all tests of the cluster tier, emptied after each test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from charts.names import NAMESPACE
from tests.cluster.api import Api, path_of, path_of_object
from tests.cluster.control_plane import PROGRAMS, ControlPlane, control_plane
from tests.pods.compiled_graphs.pods import eventually

BINARIES = "KUBE_BINARIES"
# Each of these files takes minutes, mostly waiting. They are the first, so that each gets its own
# worker: pytest gives a worker its next file when two tests of its last file are left, so later one
# worker could get both files.
LONGEST_FIRST = ("test_deploys.py", "test_life.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as `cluster`, and sort the files that take longest first.

    The tests are skipped if the environment variable KUBE_BINARIES does not name Kubernetes'
    programs.
    """
    here = Path(__file__).parent
    longest = {here / name for name in LONGEST_FIRST}
    items.sort(key=lambda item: item.path not in longest)
    of_this_folder = {path for path in {item.path for item in items} if here in path.parents}
    for item in items:
        if item.path in of_this_folder:
            item.add_marker(pytest.mark.cluster)
            if not os.environ.get(BINARIES):
                item.add_marker(pytest.mark.skip(reason=f"{BINARIES} names no folder"))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a control plane with what every EKS cluster has before a node joins."""
    binaries = Path(os.environ[BINARIES])
    missing = [name for name in PROGRAMS if not (binaries / name).exists()]
    assert not missing, f"{BINARIES}: given {binaries}, which has no {', '.join(missing)}"
    # Process 1 is pytest only in namespaces of its own, which `make test-cluster` makes. There the
    # programs that tests start reach no network, end with the test run, and mount nothing outside.
    first = Path("/proc/1/cmdline").read_bytes()
    assert b"pytest" in first, "the test run has processes of its own only by: make test-cluster"
    with control_plane(binaries, tmp_path_factory.mktemp("control-plane")) as started:
        yield started


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    """Yield the control plane's API, and afterwards delete the objects that the test leaves."""
    yield plane.api
    empty(plane.api)


def empty(api: Api) -> None:
    """Delete every node, device and object that a test made.

    Pods are deleted first: with pods in it, a namespace ends only after half of their grace period.
    """
    for kind in ("Deployment", "Job", "Node", "ResourceSlice", "DeviceClass"):
        for item in api.all(kind):
            api.delete(path_of_object(item))
    eventually(lambda: _without_pods(api))
    api.delete(namespace := path_of("Namespace", NAMESPACE))
    for volume in api.all("PersistentVolume"):
        api.delete(path_of_object(volume))
    eventually(lambda: api.find(namespace) is None and not api.all("PersistentVolume"))


def _without_pods(api: Api) -> bool:
    pods = api.all("Pod")
    for pod in pods:
        api.delete(path_of_object(pod), grace_seconds=0)
    return not pods
