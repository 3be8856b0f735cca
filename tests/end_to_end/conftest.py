"""Fixtures: one experiment, its synthesized templates, an account, a hub and the pods."""

import hashlib
import json
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from moto import mock_aws

from charts.names import base_url, server_name
from charts.run_spec_file import run_spec_file
from draftworth.account import leftovers
from draftworth.measuring.run_specification import EXIT_COMPLETE
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.run_folder import parse_s3_url
from stacks.application import build_application
from tests.conftest import ROOT
from tests.draftworth.account.stubs import EmulatedClient
from tests.end_to_end.cloud import Cloud, Template
from tests.end_to_end.pods import Cluster, Object, Pod, Process
from tests.end_to_end.programs import reports_of_canaries
from tests.lambdas.capacity_controller.conftest import CloudFormation
from tests.pods.compiled_graphs.pods import eventually, free_port
from tests.stacks.synthesis import cdk_context, parts_of
from tests.support.emulator import emulated_account, one_signing_key
from tests.support.experiments import shipped
from tests.support.local_hub import LocalHub, Repo, local_hub
from tests.support.neuron import put_node

TARGET, DRAFT = "Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"
COMMITS = {TARGET: "a" * 40, DRAFT: "b" * 40}
BUDGET_USD, DEADLINE_MINUTES = 105, 300
# Long enough for a busy machine; a wait ends as soon as its condition is true.
LONGEST_WAIT_SECONDS = 180
BUCKETS = ("checkpoints", "artifacts", "results")

# Bucket to key to the object's bytes.
Contents = Mapping[str, Mapping[str, bytes]]
# The experiment's file and its templates.
Synthesis = tuple[Path, Mapping[str, Template]]


@pytest.fixture(scope="session")
def experiment_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("experiment"))


def write(
    folder: Path,
    *,
    requests: tuple[int, int] = (4, 8),
    aws: Mapping[str, Any] = MappingProxyType({}),
    **changes: Any,
) -> Path:
    """Write the experiment, with changes at its top level, to a file; return its path.

    requests: the minimum and the maximum number for each variant and prompt class.
    aws: changes of its section `aws`.
    """
    data = shipped("qwen3-32b")
    # No repetition stops and starts servers here: tests of the cluster tier do that.
    data["repetitions"] = 1
    data["workload"] |= {
        "classes": [{"name": "structured", "cases": ["count", "repeat_line"]}],
        "output_tokens": 40,
        "requests_per_round": 4,
        "min_requests": requests[0],
        "max_requests": requests[1],
        "target_interval_percent": 100,
        "warmup_requests": 1,
        "concurrency": 2,
        # llmperf on Ray has its own tests, because it is not installed with the tools.
        "load_generator": "asyncio",
    }
    data["aws"] |= {
        "load_generator_image": f"registry.example.com/llmperf@sha256:{'0' * 64}",
        "accelerator_budget_usd": BUDGET_USD,
        "deadline_minutes": DEADLINE_MINUTES,
        **aws,
    }
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(data | changes, sort_keys=False))
    return path


@pytest.fixture(scope="session")
def templates(
    experiment_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Template]:
    return synthesized(experiment_path, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="session")
def repeated_templates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Template]:
    """Return the templates with a raised `rerun`: a deploy of them measures once more."""
    folder = tmp_path_factory.mktemp("second")
    return synthesized(write(folder, rerun=2), folder)


def synthesized(path: Path, folder: Path) -> Mapping[str, Template]:
    experiment = load_neuron(path)
    # The tests in tests/stacks validate the templates of this code.
    context = cdk_context() | {"@aws-cdk/core:validateAgainstDefaultRules": False}
    app = cdk.App(context=context, outdir=str(folder / "out"), analytics_reporting=False)
    build_application(app, experiment=experiment)
    app.synth()
    path = folder / "out" / f"{experiment.names.stack}.template.json"
    return parts_of(json.loads(path.read_text()))


def synthesis_of(folder: Path, **changes: Any) -> Synthesis:
    path = write(folder, **changes)
    return path, synthesized(path, folder)


@dataclass(kw_only=True)
class Environment:
    """Everything around one experiment: its account, the hub that has its models, its pods."""

    experiment: ResolvedNeuron
    path: Path
    cloud: Cloud
    hub: LocalHub
    folder: Path
    endpoint: str
    processes: ExitStack
    ports: Mapping[str, int]

    @property
    def cluster(self) -> Cluster:
        environment = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "HF_ENDPOINT": self.hub.url,
            "LD_LIBRARY_PATH": str(self.folder / "node" / "lib"),
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        return Cluster(
            objects=self.cloud.objects,
            folder=self.folder,
            s3=self.cloud.client("s3"),
            environment=environment,
        )

    @property
    def job_name(self) -> str:
        (job,) = self._jobs("llmperf")
        return str(job["metadata"]["name"])

    def stagers(self, number: int = 1) -> list[Pod]:
        return [self.cluster.pod(job, number) for job in self._jobs("checkpoint-stager")]

    def canaries(self) -> list[Pod]:
        return [self.cluster.pod(job) for job in self._jobs("canary")]

    def server(self, variant: str) -> Pod:
        port = str(self.ports[variant])
        owner = deepcopy(self.cluster.named("Deployment", self._server_of(variant)))
        pod = owner["spec"]["template"]["spec"]
        (server,) = (c for c in pod["containers"] if c["name"] == "vllm")
        server["command"].insert(server["command"].index("start") + 1, f"--root={self.node}")
        replaced = {"--port=8000": f"--port={port}", "127.0.0.1:8000": f"127.0.0.1:{port}"}
        return self.cluster.pod(owner, replaced=replaced)

    @property
    def node(self) -> Path:
        """Return what a container sees of the accelerator node."""
        return put_node(self.folder / "node", devices=self.experiment.spec.serving.slot_devices)

    def measurer(self, number: int = 1) -> Pod:
        (job,) = self._jobs("llmperf")
        module = {"pods.measuring": "tests.end_to_end.measuring_job"}
        return self.cluster.pod(job, number, {**self.upload_run_spec(job), **module})

    def upload_run_spec(self, job: Object) -> Mapping[str, str]:
        """Upload the run specification where the Job reads it, with server URLs on this machine.
        Return a map from the hash in the Job's arguments to the hash of the uploaded file."""
        file = run_spec_file(self.experiment)
        text = file.data.decode()
        for name, port in self.ports.items():
            text = text.replace(base_url(self._server_of(name)), f"http://127.0.0.1:{port}")
        (container,) = job["spec"]["template"]["spec"]["containers"]
        option, url = container["args"][:2]
        assert option == "--run-spec"
        bucket, key = parse_s3_url(url)
        assert bucket == self.cloud.asset_bucket
        self.cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())
        return {file.sha256: hashlib.sha256(text.encode()).hexdigest()}

    def start(self, pod: Pod, container: str, *more: str, **environment: str) -> Process:
        """Start a container; it is ended at the end of the test."""
        process = pod.start(container, *more, **environment)
        self.processes.callback(process.end)
        return process

    def serve(self) -> None:
        """Start every server with its uploader, and wait until they are healthy."""
        pods = [self.server(variant) for variant in self.ports]
        for pod in pods:
            self.start(pod, "vllm", START_NOTES=str(pod.folder / "start_notes"))
            self.start(pod, "graph-uploader")
        notes = [pod.folder / "start_notes" for pod in pods]
        # A file that is being written is empty at first.
        eventually(lambda: all(note.exists() and note.read_text() for note in notes))

    def start_line(self, variant: str) -> str:
        """Return what a server did at its start: `compiled FOLDER` or `loaded FOLDER`."""
        return (self.server(variant).folder / "start_notes").read_text()

    def keys(self, bucket: str, suffix: str = "") -> list[str]:
        """Return the keys with this suffix. bucket: `checkpoints`, `artifacts` or `results`."""
        listing = self.cloud.client("s3").list_objects_v2(Bucket=getattr(self.cloud.bucket, bucket))
        keys = [entry["Key"] for entry in listing.get("Contents", ())]
        return [key for key in keys if key.endswith(suffix)]

    def get(self, bucket: str, key: str) -> bytes:
        name = getattr(self.cloud.bucket, bucket)
        data: bytes = self.cloud.client("s3").get_object(Bucket=name, Key=key)["Body"].read()
        return data

    def contents(self) -> Contents:
        return {b: {k: self.get(b, k) for k in self.keys(b)} for b in BUCKETS}

    def put(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        for key, data in objects.items():
            self.cloud.client("s3").put_object(
                Bucket=getattr(self.cloud.bucket, bucket), Key=key, Body=data
            )

    def stage(self, contents: Contents) -> None:
        """Put an earlier run's checkpoints, have the canaries report, and bring the node up."""
        self.put("checkpoints", contents["checkpoints"])
        reports_of_canaries(self)
        self.cloud.nodes_follow()
        self.cloud.heartbeat(after_minutes=2)
        self.cloud.notifications()
        assert (self.cloud.desired_nodes, self.cloud.instances) == (1, 1)

    def measure(self) -> str:
        """Run a measuring pod to the end of its run, and return the run's id."""
        pod = self.measurer()
        process = self.start(pod, "llmperf")
        assert process.wait() == EXIT_COMPLETE, process.output
        name = pod.owner["metadata"]["name"]
        (key,) = (k for k in self.keys("results", "/run.json") if k.startswith(f"runs/{name}"))
        return key.split("/")[1]

    def leftovers(self, monkeypatch: pytest.MonkeyPatch) -> int:
        monkeypatch.setattr(leftovers, "client", EmulatedClient)
        return leftovers.run(Namespace(experiment=self.path))

    def wait_for(self, bucket: str, fragment: str, count: int = 1) -> None:
        eventually(
            lambda: sum(fragment in key for key in self.keys(bucket)) >= count,
            seconds=LONGEST_WAIT_SECONDS,
            every_seconds=0.2,
        )

    def _server_of(self, variant: str) -> str:
        (variant_with_slot,) = (v for v in self.experiment.variants if v.name == variant)
        return server_name(variant_with_slot.slot)

    def _jobs(self, container: str) -> list[Object]:
        return [
            job
            for job in self.cluster.of_kind("Job")
            if job["spec"]["template"]["spec"]["containers"][0]["name"] == container
        ]


def repository(commit: str) -> Repo:
    """Return a small model; target and draft have the same tokenizer, that of the tiny pair."""
    tokenizer = (ROOT / "rehearsal" / "tiny_pair" / "target" / "tokenizer.json").read_bytes()
    files = {
        "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
        "model.safetensors": bytes(range(256)) * 40,
        "tokenizer.json": tokenizer,
    }
    return Repo(commits={commit: files}, refs={"main": commit})


@contextmanager
def new_environment(
    path: Path, templates: Mapping[str, Template], folder: Path
) -> Iterator[Environment]:
    """Yield an environment in which nothing is deployed yet."""
    experiment = load_neuron(path)
    with ExitStack() as stack:
        stack.enter_context(one_signing_key())
        hub = stack.enter_context(
            local_hub({model: repository(commit) for model, commit in COMMITS.items()})
        )
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        endpoint = emulated_account()
        # Clients in this process use the same emulated state, without a connection.
        stack.enter_context(mock_aws())
        patch.setenv("AWS_DEFAULT_REGION", experiment.spec.aws.region)
        write_vllm(folder / "bin")
        yield Environment(
            experiment=experiment,
            path=path,
            cloud=Cloud(
                names=experiment.names,
                region=experiment.spec.aws.region,
                templates=templates,
                cloudformation=CloudFormation(),
                now_unix_s=time.time(),
            ),
            hub=hub,
            folder=folder,
            endpoint=endpoint,
            processes=stack,
            ports={variant.name: free_port() for variant in experiment.variants},
        )


@dataclass(frozen=True, kw_only=True)
class FirstRun:
    run_id: str
    contents: Contents


@pytest.fixture(scope="session")
def first_run(
    experiment_path: Path,
    templates: Mapping[str, Template],
    tmp_path_factory: pytest.TempPathFactory,
) -> FirstRun:
    """Stage, compile and measure once, for all scenarios that start from a finished run."""
    folder = tmp_path_factory.mktemp("first_run")
    with new_environment(experiment_path, templates, folder) as env:
        env.cloud.deploy()
        assert [stager.run("checkpoint-stager") for stager in env.stagers()] == [0, 0]
        reports_of_canaries(env)
        assert env.cloud.desired_nodes == 1
        env.serve()
        env.wait_for("artifacts", "_ARTIFACTS.json", len(env.ports))
        assert all(env.start_line(variant).startswith("compiled ") for variant in env.ports)
        return FirstRun(run_id=env.measure(), contents=env.contents())


@pytest.fixture
def env(
    experiment_path: Path, templates: Mapping[str, Template], tmp_path: Path
) -> Iterator[Environment]:
    """Yield an environment that is deployed in an account of its own, with nothing staged."""
    with new_environment(experiment_path, templates, tmp_path) as made:
        made.cloud.deploy()
        yield made


@pytest.fixture(scope="session")
def held_synthesis(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return synthesis_of(tmp_path_factory.mktemp("held"), aws={"hold": True})


@pytest.fixture
def held(held_synthesis: Synthesis, tmp_path: Path) -> Iterator[Environment]:
    """Yield an environment that is deployed on hold, with nothing staged."""
    with new_environment(*held_synthesis, tmp_path) as made:
        made.cloud.deploy()
        yield made


def write_vllm(folder: Path) -> None:
    """Write a stand-in for the images' `vllm`; with `TROUBLE` set, it fails in that way."""
    folder.mkdir()
    stand_in = Path(__file__).with_name("stand_in_vllm.py")
    program = folder / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P {stand_in} "$@"\n')
    program.chmod(0o755)
    assert shutil.which("vllm", path=str(folder))
