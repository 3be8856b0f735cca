"""Deployments that are scaled through a stand-in for the Kubernetes API.

It starts and ends the servers, and the measuring Job's pod finds it as it finds the real one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from charts.names import server_name
from tests.end_to_end.conftest import Environment
from tests.end_to_end.pods import Process
from tests.pods.measuring.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes


@dataclass(kw_only=True)
class Slots(StandInKubernetes):
    """Deployments whose replicas are servers that run here. number: of their next pods."""

    env: Environment
    number: int = 1
    running: dict[str, Process] = field(default_factory=dict)

    def scale(self, name: str, replicas: int) -> dict[str, Any]:
        was = self.replicas[name]
        answer = super().scale(name, replicas)
        if replicas and not was:
            self.start(name)
        if was and not replicas:
            self.running.pop(name).end()
        return answer

    def start(self, name: str) -> None:
        """A pod of a Deployment."""
        pod = self.env.server(self.variant_of(name), self.number)
        self.number += 1
        self.running[name] = self.env.start(pod, "vllm", SAID=str(pod.folder / "said"))

    def variant_of(self, name: str) -> str:
        """Whose server a Deployment has."""
        variants = self.env.experiment.variants
        (found,) = (variant.name for variant in variants if server_name(variant.slot) == name)
        return found

    def lose_node(self) -> None:
        """Every server goes; Kubernetes makes other pods of those that should run."""
        self.env.lose_servers()
        self.running.clear()
        for name, replicas in self.replicas.items():
            if replicas:
                self.start(name)


@contextmanager
def slots_of(env: Environment, folder: Path, **more: Any) -> Iterator[Slots]:
    """As a deploy leaves them, and nothing runs yet. more: of the stand-in."""
    folder /= "kubernetes"
    folder.mkdir()
    deployments = env.cluster.of_kind("Deployment")
    replicas = {d["metadata"]["name"]: d["spec"]["replicas"] for d in deployments}
    made = Slots(replicas=replicas, env=env, **more)
    with stand_in_kubernetes(folder, made):
        yield made


def measure(env: Environment, slots: Slots, number: int) -> Process:
    """A pod of the measuring Job."""
    pod = env.measurer(number)
    module = {"pods.measuring": "tests.end_to_end.llmperf_with_kubernetes"}
    pod.replaced = {**pod.replaced, **module}
    at = urlsplit(slots.url)
    return env.start(
        pod,
        "llmperf",
        KUBERNETES_SERVICE_HOST=str(at.hostname),
        KUBERNETES_SERVICE_PORT=str(at.port),
        POD_FOLDER=str(slots.folder),
    )
