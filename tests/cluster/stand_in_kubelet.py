"""Stands in for the kubelets of all nodes: starts the programs of the pods that are bound to them.

Command, arguments, environment, mounts and user are those of the pod. The content of images is made
up (`Image`), and an emulator stands in for AWS.
"""

import os
import re
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from charts.names import NAMESPACE
from tests.cluster.api import Api, Object, RefusedError
from tests.cluster.nodes import Nodes
from tests.cluster.running_pod import RunningPod
from tests.cluster.sandbox import KUBERNETES, Mount, PodNetwork, Program
from tests.cluster.volumes import NotThereError, Volumes

STEP_SECONDS = 0.2
# No pod has this address, so it refuses connections, like a Service without endpoints.
NOBODY = "127.0.0.1"
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


@dataclass(frozen=True, kw_only=True)
class Image:
    mounts: tuple[Mount, ...]
    environment: Mapping[str, str]
    working_folder: str = "/"


@dataclass(kw_only=True)
class StandInKubelet:
    """The kubelets of all nodes, in one thread.

    images: {text in the name of a pod's image: content of the image}.
    more_arguments: {name of a container: arguments after those of its manifest}.
    hidden_devices: how many devices of its claim each container lacks, for tests of a broken slot.
    running: {uid of the pod: the pod}. trouble: what a real kubelet would report as events.
    """

    api: Api
    nodes: Nodes
    network: PodNetwork
    volumes: Volumes
    images: Mapping[str, Image]
    folder: Path
    more_arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hidden_devices: int = 0
    running: dict[str, RunningPod] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def log(self, fragment: str, container: str) -> str:
        paths = sorted(self.folder.glob(f"logs/*{fragment}*/{container}/log"))
        return "\n".join(path.read_text(errors="replace") for path in paths)

    def says(self, fragment: str, container: str, text: str) -> bool:
        return text in self.log(fragment, container)

    def step(self) -> None:
        """Start, run or end each pod once, according to its object and its node."""
        self._write_hosts()
        living = {pod["metadata"]["uid"]: pod for pod in self.api.all("Pod")}
        for uid, pod in living.items():
            if pod["spec"].get("nodeName") in self.nodes.alive:
                self._step_pod(uid, pod)
        for uid, run in list(self.running.items()):
            is_lost = run.pod["spec"]["nodeName"] not in self.nodes.alive
            if uid not in living or is_lost:
                self._forget(uid)

    def _step_pod(self, uid: str, pod: Object) -> None:
        run = self.running.get(uid)
        if run is None and pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return
        if run is None:
            run = self.running[uid] = RunningPod(
                api=self.api,
                pod=pod,
                interface=self.network.add(),
                folder=self.folder / "logs" / pod["metadata"]["name"],
                program=self._program,
            )
        try:
            if not run.is_over:
                self.volumes.of_pod(pod)
            run.step(pod)
        except NotThereError as error:
            # A real kubelet would report the missing volume in an event, and start no container.
            self.trouble.append(f"{pod['metadata']['name']}: {error}")
            if "deletionTimestamp" in pod["metadata"]:
                run.step(pod)
        except RefusedError:
            # The pod was deleted or changed after it was read.
            pass

    def _forget(self, uid: str) -> None:
        run = self.running.pop(uid)
        run.kill()
        run.interface.remove()

    def _program(self, pod: Object, container: Object) -> Program:
        (image,) = (image for name, image in self.images.items() if name in container["image"])
        security = {
            **pod["spec"].get("securityContext", {}),
            **container.get("securityContext", {}),
        }
        hosts = Mount(source=self.folder / "hosts", target="/etc/hosts", read_only=True)
        return Program(
            command=[
                *container["command"],
                *container.get("args", ()),
                *self.more_arguments.get(container["name"], ()),
            ],
            environment={
                **image.environment,
                **self._kubernetes,
                **self._credentials(pod),
                **dict(self._environment(pod, container)),
            },
            working_folder=container.get("workingDir", image.working_folder),
            mounts=[
                *(*image.mounts, hosts),
                *self._devices(pod, container),
                *self._mounts(pod, container),
            ],
            user=security.get("runAsUser"),
            read_only_root=security.get("readOnlyRootFilesystem", False),
        )

    @property
    def _kubernetes(self) -> Mapping[str, str]:
        """Return the environment variables with the API server's address, as in every container."""
        port = str(urlsplit(self.api.url).port)
        return {"KUBERNETES_SERVICE_HOST": KUBERNETES, "KUBERNETES_SERVICE_PORT": port}

    def _credentials(self, pod: Object) -> Mapping[str, str]:
        """Return the environment variables with a pod's AWS credentials; {} without a role.

        They stand in for EKS Pod Identity. The key is the name of the pod's service account.
        """
        account = pod["spec"]["serviceAccountName"]
        if account not in self.volumes.accounts:
            return {}
        return {"AWS_ACCESS_KEY_ID": account, "AWS_SECRET_ACCESS_KEY": account}

    def _environment(self, pod: Object, container: Object) -> Iterator[tuple[str, str]]:
        for entry in container.get("env", ()):
            if "valueFrom" in entry:
                yield entry["name"], _field(pod, entry["valueFrom"]["fieldRef"]["fieldPath"])
            else:
                yield entry["name"], entry.get("value", "")

    def _devices(self, pod: Object, container: Object) -> Iterator[Mount]:
        """Yield the devices that the Neuron driver gives a container, as mounts.

        They are those of the pod's claim; a container that uses no claim gets none.
        """
        if not container["resources"].get("claims"):
            return
        claims = [
            claim
            for claim in self.api.all("ResourceClaim")
            if claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        ]
        names = [
            result["device"]
            for claim in claims
            for result in claim["status"]["allocation"]["devices"]["results"]
        ]
        for name in names[self.hidden_devices :]:
            number = name.rpartition("-")[2]
            yield Mount(source=self.folder / "hosts", target=f"/dev/neuron{number}")

    def _mounts(self, pod: Object, container: Object) -> Iterator[Mount]:
        folders = self.volumes.of_pod(pod)
        volumes = {v["name"]: v for v in pod["spec"].get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            yield Mount(
                source=folders[mount["name"]] / mount.get("subPath", ""),
                # A link in a path is followed: /var/run is a link to /run, here and in images.
                target=os.path.realpath(mount["mountPath"]),
                read_only=bool(
                    mount.get("readOnly") or {"persistentVolumeClaim", "configMap"} & volume.keys()
                ),
            )

    # Names of Services

    def _write_hosts(self) -> None:
        """Write the `hosts` file that all pods mount, with the name of each Service.

        It has the address of a ready pod or, without one, an address that refuses connections.
        """
        ready = {
            item["metadata"]["labels"]["kubernetes.io/service-name"]: address
            for item in self.api.all("EndpointSlice")
            for endpoint in item.get("endpoints") or ()
            if endpoint.get("conditions", {}).get("ready")
            for address in endpoint["addresses"]
        }
        lines = ["127.0.0.1 localhost"]
        for service in self.api.all("Service"):
            name = service["metadata"]["name"]
            names = (f"{name}.{NAMESPACE}.svc.cluster.local", f"{name}.{NAMESPACE}.svc", name)
            lines.append(" ".join([ready.get(name, NOBODY), *names]))
        data = "\n".join([*lines, ""]).encode()
        handle = os.open(self.folder / "hosts", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.pread(handle, len(data) + 1, 0) != data:
                os.pwrite(handle, data, 0)
                os.ftruncate(handle, len(data))
        finally:
            os.close(handle)

    def work(self) -> None:
        while not self._stop.wait(STEP_SECONDS):
            try:
                self.step()
            except Exception:  # noqa: BLE001 (a kubelet goes on; the test shows what happened)
                self.trouble.append(traceback.format_exc())
        for uid in list(self.running):
            self._forget(uid)


def _field(pod: Object, path: str) -> str:
    """Return the value of a field of the pod, such as `metadata.name`, as the downward API does."""
    if entry := _ENTRY.fullmatch(path):
        kind, key = entry.groups()
        return str(pod["metadata"].get(kind, {}).get(key, ""))
    field_values = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.nodeName": pod["spec"]["nodeName"],
        "spec.serviceAccountName": pod["spec"]["serviceAccountName"],
    }
    return str(field_values[path])


@contextmanager
def working(kubelet: StandInKubelet) -> Iterator[StandInKubelet]:
    thread = threading.Thread(target=kubelet.work, daemon=True)
    thread.start()
    try:
        yield kubelet
    finally:
        kubelet._stop.set()
        thread.join()
