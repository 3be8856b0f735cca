"""All that surrounds an experiment: emulated AWS account, cluster, nodes, a local Hugging Face.

The pods on the nodes run their real programs.
"""

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import cache_from_source
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from charts.run_spec_file import run_spec_file
from charts.shipped import MEASURING_IMAGE, ROOT, source_files
from draftworth.measuring.clock import MAX_WAIT_SHARE
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.run_folder import parse_s3_url
from tests.cluster.api import Api, Object, of_component
from tests.cluster.control_plane import ControlPlane
from tests.cluster.deploying import Deployment, handler
from tests.cluster.nodes import NodeKind, Nodes, node_kinds, nodes_of
from tests.cluster.sandbox import HOST, Mount, PodNetwork
from tests.cluster.stand_in_kubelet import Image, StandInKubelet, working
from tests.cluster.volumes import Volumes
from tests.end_to_end.cloud import Cloud
from tests.end_to_end.conftest import COMMITS, repository, write_vllm
from tests.lambdas.capacity_controller.conftest import CloudFormation
from tests.stacks.synthesis import Template, of_type
from tests.support.emulator import emulated_account, one_signing_key
from tests.support.local_hub import LocalHub, local_hub
from tests.support.neuron import compiled, put_node
from tests.support.waiting import HANGS_AFTER_SECONDS

TURN_SECONDS = 0.6
# Minutes by which the capacity controller's clock advances per turn, so that hours take minutes.
MINUTES_PER_TURN = 0.2
NEURON = "vllm-neuronx"
PROGRAMS = f"{Path(sys.executable).parent}:/usr/bin:/bin"


@dataclass(kw_only=True)
class World:
    """All that surrounds one experiment: AWS account, cluster, nodes, and a local Hugging Face.

    nodes_linger: whether nodes that are no longer wanted stay up, as real ones do for a while.
    minutes_per_turn: by how much the capacity controller's clock advances at each turn.
    """

    experiment: ResolvedNeuron
    api: Api
    cloud: Cloud
    stack: Deployment
    nodes: Nodes
    kinds: Mapping[str, NodeKind]
    kubelet: StandInKubelet
    nodes_linger: bool = False
    minutes_per_turn: float = MINUTES_PER_TURN
    _names: Iterator[int] = field(default_factory=lambda: count(10))

    def deploy(self) -> None:
        """Do what `cdk deploy` does: upload files, fill the account, create the objects."""
        self.cloud.deploy()
        for _ in range(2):
            self.join("cpu")
        self.stack.deploy(dict(self.cloud.templates["benchmark"]))
        (job,) = (i for i in self.stack.objects() if i["metadata"]["name"].startswith("llmperf-q"))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        bucket, key = parse_s3_url(container["args"][1])
        data = run_spec_file(self.experiment).data
        self.cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=data)

    def join(self, kind: str) -> None:
        name = f"ip-10-0-1-{next(self._names)}.{self.cloud.region}.compute.internal"
        self.nodes.join(name, self.kinds[kind])

    def break_engine(self, script: str) -> None:
        (self.kubelet.folder / "neuron-image" / "vllm").write_text(f"#!/bin/sh\n{script}\n")

    def spoil_driver(self, version: str) -> None:
        (self.kubelet.folder / "node" / "sys/module/neuron/version").write_text(version)

    def spoil_mount(self, how: str) -> None:
        """Make reads of the checkpoint slow or fail, by a library that servers preload.

        how: `slow` or `gone`.
        """
        image = self.kubelet.images[NEURON]
        library = self.kubelet.folder / "bad_mount.so"
        library.write_bytes(compiled("bad_mount.c"))
        bad = {"LD_PRELOAD": "/bad_mount.so", "MOUNT": how}
        spoilt = replace(
            image,
            mounts=(*image.mounts, Mount(source=library, target="/bad_mount.so")),
            environment={**image.environment, **bad},
        )
        self.kubelet.images = {**self.kubelet.images, NEURON: spoilt}

    def hold(self, fragment: str) -> None:
        """Pause the first process of each container of the pods with this text in their names."""
        for run in self.kubelet.running.values():
            if fragment in run.pod["metadata"]["name"]:
                for container in run.containers:
                    if container.sandbox:
                        container.sandbox.process.send_signal(signal.SIGSTOP)

    def names_of(self, kind: str) -> list[str]:
        label = self.kinds[kind].labels["draftworth/node-group"]
        return [
            node["metadata"]["name"]
            for node in self.api.all("Node")
            if node["metadata"]["labels"].get("draftworth/node-group") == label
        ]

    def turn(self) -> None:
        """Let AWS do a step: deliver events, call the capacity controller, start and end nodes."""
        self.cloud.events()
        self.cloud.heartbeat(after_minutes=self.minutes_per_turn)
        self.cloud.nodes_follow()
        node_names = self.names_of("accelerator")
        for _ in range(self.cloud.instances - len(node_names)):
            self.join("accelerator")
        if not self.nodes_linger:
            for name in node_names[self.cloud.instances :]:
                self.nodes.retire(name)

    def until(self, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + HANGS_AFTER_SECONDS
        while time.monotonic() < end:
            self.turn()
            if answer := condition():
                return answer
            time.sleep(TURN_SECONDS)
        raise AssertionError("\n".join(["it did not happen in time", *self._last_log_lines()]))

    def _last_log_lines(self) -> Iterator[str]:
        yield from self.kubelet.trouble[-3:]
        for log in sorted(self.kubelet.folder.glob("logs/*/*/log")):
            yield f"== {log.parent.parent.name} {log.parent.name}"
            yield from log.read_text(errors="replace").splitlines()[-10:]

    def keys(self, bucket: str, suffix: str = "") -> list[str]:
        """Return the keys of a bucket that end with `suffix`.

        bucket: `checkpoints`, `artifacts` or `results`.
        """
        listing = self.cloud.client("s3").list_objects_v2(Bucket=getattr(self.cloud.bucket, bucket))
        return [e["Key"] for e in listing.get("Contents", ()) if e["Key"].endswith(suffix)]

    def get(self, bucket: str, key: str) -> bytes:
        name = getattr(self.cloud.bucket, bucket)
        data: bytes = self.cloud.client("s3").get_object(Bucket=name, Key=key)["Body"].read()
        return data

    def has_ended(self, container: str, how: str) -> bool:
        jobs = [
            job
            for job in self.api.all("Job")
            if job["spec"]["template"]["spec"]["containers"][0]["name"] == container
        ]
        ends = [
            {c["type"] for c in job["status"].get("conditions", ()) if c["status"] == "True"}
            for job in jobs
        ]
        return bool(jobs) and all(how in end for end in ends)

    def pods(self, component: str) -> list[Object]:
        return self.api.all("Pod", labelSelector=of_component(component))


@contextmanager
def new_world(
    plane: ControlPlane,
    network: PodNetwork,
    folder: Path,
    path: Path,
    templates: Mapping[str, Template],
    assembly: Path,
) -> Iterator[World]:
    """Yield a world in which nothing is deployed.

    path: the experiment file. assembly: the CDK assembly. templates: {part of the stack: template}.
    """
    experiment = load_neuron(path)
    with ExitStack() as stack:
        stack.enter_context(one_signing_key())
        repositories = {model: repository(commit) for model, commit in COMMITS.items()}
        hub = stack.enter_context(local_hub(repositories, address=HOST))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("AWS_ENDPOINT_URL", emulated_account())
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        cloud = Cloud(
            names=experiment.names,
            region=experiment.spec.aws.region,
            templates=templates,
            cloudformation=CloudFormation(),
            now_unix_s=time.time(),
        )
        nodes = stack.enter_context(nodes_of(plane.api))
        kubelet = StandInKubelet(
            api=plane.api,
            nodes=nodes,
            network=network,
            volumes=Volumes(
                api=plane.api,
                s3=cloud.client("s3"),
                folder=folder / "volumes",
                accounts=_accounts(templates["benchmark"]),
            ),
            images=_images(folder, _address_of_pods(stack), hub),
            folder=folder,
            # No network policies hold here, so the canary of paths does not wait until they do.
            more_arguments={"paths": ("--settle-seconds=0", "--poll-seconds=0.5")},
        )
        stack.enter_context(working(kubelet))
        yield World(
            experiment=experiment,
            api=plane.api,
            cloud=cloud,
            stack=Deployment(
                handler=stack.enter_context(handler(plane, assembly, folder / "cdk")),
                resolve=partial(cloud.resolved, "benchmark"),
            ),
            nodes=nodes,
            kinds=node_kinds(
                dict(templates["cluster"]),
                experiment.spec.accelerator,
                experiment.spec.instance_type,
                experiment.spec.aws.availability_zone,
            ),
            kubelet=kubelet,
        )


def _accounts(template: Template) -> frozenset[str]:
    associations = of_type(dict(template), "AWS::EKS::PodIdentityAssociation").values()
    return frozenset(association["Properties"]["ServiceAccount"] for association in associations)


def _address_of_pods(stack: ExitStack) -> str:
    """Serve the emulated AWS account at an address that pods reach, and return its URL."""
    server = ThreadedMotoServer(ip_address=HOST, port=0, verbose=False)
    server.start()
    stack.callback(server.stop)
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


def _images(folder: Path, aws: str, hub: LocalHub) -> Mapping[str, Image]:
    """Return the content of the measuring and the Neuron image, {text in an image's name: content}.

    Their Python packages are those of this machine's interpreter. aws: the URL of the emulator.
    """
    measuring, neuron = folder / "measuring-image", folder / "neuron-image"
    for file in source_files(MEASURING_IMAGE):
        # The bytecode is copied too, because each program of a pod would otherwise compile it.
        for path in (ROOT / file, Path(cache_from_source(str(ROOT / file)))):
            if path.exists():
                copy = measuring / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
    # The client excludes requests for which it waited too long for a core. On a busy machine these
    # would be many, so the limits are lifted.
    for name, limit, lifted in (
        ("clock.py", f"MAX_WAIT_SHARE = {MAX_WAIT_SHARE}", "MAX_WAIT_SHARE = 1e9"),
        ("connections.py", "_MAX_AGE_NS = _NANOSECONDS", "_MAX_AGE_NS = 10**18"),
    ):
        module = measuring / "draftworth/measuring" / name
        source = module.read_text()
        assert source.count(limit) == 1
        module.write_text(source.replace(limit, lifted))
    write_vllm(neuron)
    node = put_node(folder / "node", devices=0)  # a pod's container gets the devices of its claim
    here = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": aws,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {
        "llmperf": Image(
            mounts=(Mount(source=measuring, target="/app", read_only=True),),
            environment={
                **here,
                "PATH": PROGRAMS,
                "HF_ENDPOINT": hub.url,
                "HOME": "/home/llmperf",
                "PYTHONPATH": "/app",
            },
            working_folder="/app",
        ),
        NEURON: Image(
            mounts=(
                Mount(source=neuron, target="/image/bin", read_only=True),
                Mount(source=node / "sys" / "module", target="/sys/module"),
                Mount(source=node / "lib", target="/opt/aws/neuron/lib", read_only=True),
            ),
            environment={
                **here,
                "PATH": f"/image/bin:{PROGRAMS}",
                "HOME": "/root",
                "LISTEN_ON": "0.0.0.0",  # noqa: S104 (of a pod's own network)
                "START_NOTES": "/tmp/start_notes",  # noqa: S108 (of a container's own root)
            },
        ),
    }
