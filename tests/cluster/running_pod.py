"""One pod as a kubelet runs it: containers, restarts, probes, status, deletion."""

import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.api import Api, Object, path_of_object
from tests.cluster.nodes import time_now
from tests.cluster.sandbox import PodInterface, Program, Sandbox, start

# Seconds in tests for each second of a real kubelet's probe periods and restart delays.
SECOND = 0.03
FIRST_RESTART_WAIT, LONGEST_RESTART_WAIT = 10.0, 300.0
PROBE_TIMEOUT_SECONDS = 10.0
KINDS_OF_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")

MakeProgram = Callable[[Object, Object], Program]


@dataclass(kw_only=True)
class Probe:
    spec: Mapping[str, Any]
    url: str
    passed: bool = False
    failures: int = 0
    next_look: float = 0.0

    def look(self) -> None:
        if time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + SECOND * self.spec["periodSeconds"]
        answers = _answers(self.url)
        self.failures = 0 if answers else self.failures + 1
        if answers:
            self.passed = True
        elif self.has_failed:
            self.passed = False

    @property
    def has_failed(self) -> bool:
        return bool(self.failures >= self.spec["failureThreshold"])


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PROBE_TIMEOUT_SECONDS) as answer:
            return bool(200 <= answer.status < 400)
    except OSError:
        return False


@dataclass(kw_only=True)
class Container:
    """A container of a pod, through all its restarts."""

    spec: Object
    folder: Path
    interface: PodInterface
    sandbox: Sandbox | None = None
    probes: dict[str, Probe] = field(default_factory=dict)
    started_at: str = ""
    restarts: int = 0
    last: Object = field(default_factory=dict)
    waits_until: float = 0.0
    waits_for: str = ""

    def start(self, program: Program) -> None:
        self.sandbox = start(program, self.interface, self.folder)
        self.started_at, self.waits_for = time_now(), ""
        self.probes = {
            kind: Probe(spec=self.spec[kind], url=self._url(self.spec[kind]["httpGet"]))
            for kind in KINDS_OF_PROBES
            if kind in self.spec
        }

    def _url(self, probe: Mapping[str, Any]) -> str:
        ports = {port.get("name"): port["containerPort"] for port in self.spec.get("ports", ())}
        port = ports.get(probe["port"], probe["port"])
        return f"http://{self.interface.address}:{port}{probe.get('path', '/')}"

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the container runs or has not begun."""
        return self.sandbox.exit_code() if self.sandbox else None

    @property
    def is_running(self) -> bool:
        return self.sandbox is not None and self.exit_code is None

    @property
    def is_started(self) -> bool:
        return self.is_running and self._passes("startupProbe")

    @property
    def is_ready(self) -> bool:
        return self.is_started and self._passes("readinessProbe")

    def _passes(self, kind: str) -> bool:
        return kind not in self.probes or self.probes[kind].passed

    def look(self) -> None:
        if not self.is_running:
            return
        kinds = ("readinessProbe", "livenessProbe") if self.is_started else ("startupProbe",)
        for kind in kinds:
            if kind in self.probes:
                self.probes[kind].look()
                if kind != "readinessProbe" and self.probes[kind].has_failed and self.sandbox:
                    self.sandbox.kill()

    def end(self) -> None:
        if self.sandbox:
            self.sandbox.kill()

    def wait_to_restart(self) -> None:
        self.last = {"terminated": self._terminated()}
        self.sandbox = None
        wait = min(FIRST_RESTART_WAIT * 2**self.restarts, LONGEST_RESTART_WAIT)
        self.restarts += 1
        self.waits_until, self.waits_for = time.monotonic() + SECOND * wait, "CrashLoopBackOff"

    def _terminated(self) -> Object:
        code = self.exit_code
        reason = "Completed" if code == 0 else "Error"
        times = {"startedAt": self.started_at, "finishedAt": time_now()}
        return {"exitCode": code, "reason": reason, **times}

    def status(self) -> Object:
        if self.sandbox is None:
            state: Object = {"waiting": {"reason": self.waits_for or "ContainerCreating"}}
        elif self.exit_code is None:
            state = {"running": {"startedAt": self.started_at}}
        else:
            state = {"terminated": self._terminated()}
        return {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": "",
            "ready": self.is_ready,
            "started": self.is_started,
            "restartCount": self.restarts,
            "state": state,
            "lastState": self.last,
        }


@dataclass(kw_only=True)
class RunningPod:
    """A pod, from the moment at which it is bound to a node until its end.

    program: returns what a container of the pod runs, for (pod, container's spec).
    """

    api: Api
    pod: Object
    interface: PodInterface
    folder: Path
    program: MakeProgram
    containers: list[Container] = field(default_factory=list)
    first: list[Container] = field(default_factory=list)
    sent_status: Object | None = None
    is_gone: bool = False
    _is_ending: bool = False
    _killed_at: float = 0.0
    _final: Object | None = None

    def __post_init__(self) -> None:
        self.first, self.containers = (
            [
                Container(spec=c, folder=self.folder / c["name"], interface=self.interface)
                for c in self.pod["spec"].get(kind, ())
            ]
            for kind in ("initContainers", "containers")
        )

    @property
    def is_over(self) -> bool:
        """Whether no container of the pod will run again."""
        return self._final is not None

    def step(self, pod: Object) -> None:
        """Start, probe, restart or end the containers, and report the pod's status to the API.

        pod: the Pod object as the API server has it now.
        """
        self.pod = pod
        if "deletionTimestamp" in pod["metadata"]:
            self._end_politely()
        elif not self.is_over:
            self._run()
        self._report()
        if self.is_gone:
            self.api.delete(path_of_object(pod), grace_seconds=0)

    def _run(self) -> None:
        """Run the init containers one after the other, and the others once all have succeeded."""
        for container in self.first:
            if container.exit_code != 0:
                assert not container.exit_code, "the stand-in knows no init container that fails"
                if container.sandbox is None:
                    container.start(self.program(self.pod, container.spec))
                return
        for container in self.containers:
            container.look()
            if container.exit_code is not None and self._restarts:
                container.wait_to_restart()
            if container.sandbox is None and time.monotonic() >= container.waits_until:
                container.start(self.program(self.pod, container.spec))

    @property
    def _restarts(self) -> bool:
        return bool(self.pod["spec"].get("restartPolicy", "Always") == "Always")

    def _end_politely(self) -> None:
        """Send SIGTERM; when the pod's grace period is over, send SIGKILL."""
        if not self._is_ending:
            self._is_ending = True
            grace = self.pod["metadata"].get("deletionGracePeriodSeconds", 0)
            self._killed_at = time.monotonic() + grace
            for container in self.containers:
                if container.sandbox:
                    container.sandbox.tell_to_end()
        running = any(container.is_running for container in self.containers)
        if not running or time.monotonic() >= self._killed_at:
            self.kill()
            self.is_gone = True

    def kill(self) -> None:
        for container in (*self.first, *self.containers):
            container.end()

    def _report(self) -> None:
        status = self._final or self._status()
        if status["phase"] in ("Succeeded", "Failed"):
            self._final = status
        if status != self.sent_status:
            self.api.ask(
                "PATCH",
                f"{path_of_object(self.pod)}/status",
                {"status": status},
                content_type="application/strategic-merge-patch+json",
            )
            self.sent_status = status

    def _status(self) -> Object:
        statuses = [container.status() for container in self.containers]
        ready = all(status["ready"] for status in statuses)
        return {
            "phase": self._phase(),
            "podIP": self.interface.address,
            "podIPs": [{"ip": self.interface.address}],
            "conditions": list(_conditions(ready=ready)),
            "containerStatuses": statuses,
        }

    def _phase(self) -> str:
        codes = [container.exit_code for container in self.containers]
        if None not in codes and (self.is_gone or not self._restarts):
            return "Succeeded" if not any(codes) else "Failed"
        if self.is_gone:
            return "Failed"
        return "Running" if any(c.sandbox or c.restarts for c in self.containers) else "Pending"


def _conditions(*, ready: bool) -> Iterator[Object]:
    words = {True: "True", False: "False"}
    yield {"type": "Initialized", "status": "True"}
    yield {"type": "ContainersReady", "status": words[ready]}
    yield {"type": "Ready", "status": words[ready]}
