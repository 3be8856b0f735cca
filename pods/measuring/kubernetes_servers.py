"""Starts and stops servers by scaling Deployments.

This program's role (`charts/measuring_job.py`) allows it only to change the `scale` of
these Deployments, and the response to such a change has the number of pods. urllib3, which boto3
installs, is enough for this single kind of request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import urllib3
from urllib3.util import Retry, Timeout

from draftworth.measuring.result_files import in_thread
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.schedule import first_stage
from draftworth.measuring.server_lifecycle import FixedServers, Servers, ServersError
from draftworth.untrusted import hide_secret, one_line

# The folder with a pod's credentials for Kubernetes, which replaces the token from time to time.
POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE, PORT_VARIABLE = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"

# A request is sent up to eight times in two minutes, because a control plane is rarely unreachable
# for longer.
TRIES = 8
LONGEST_PAUSE_SECONDS = 30.0
_TIMEOUT = Timeout(connect=10.0, read=30.0)
# HTTP statuses after which a request is sent again: conflicts, rate limits, server errors.
_PASSING = (409, 429, 500, 502, 503, 504)
_WORDS_BYTES = 16 * 1024


@dataclass(frozen=True, kw_only=True)
class KubernetesApi:
    """A client of the Kubernetes API server, with the credentials of a pod.

    pause_seconds: the pause before the second try; each later pause is twice as long.
    """

    url: str
    folder: Path = POD_FOLDER
    pause_seconds: float = 1.0

    @classmethod
    def of_this_pod(cls, environment: Mapping[str, str]) -> KubernetesApi:
        """Return a client for the cluster of this pod; raise ServersError outside of a cluster."""
        host, port = (environment.get(name) for name in (HOST_VARIABLE, PORT_VARIABLE))
        if not host or not port or not (POD_FOLDER / "token").is_file():
            raise ServersError(
                f"servers cannot be started and stopped here: there is no {HOST_VARIABLE}, or no "
                f"token in {POD_FOLDER}; allowed: in a pod of the cluster whose service account "
                "may patch deployments/scale (the manifests of this experiment make one); next: "
                "`repetitions: 1` and `control: false` in the experiment where servers stay"
            )
        in_url = f"[{host}]" if ":" in host else host
        return cls(url=f"https://{in_url}:{port}", folder=POD_FOLDER)

    def scale(self, deployment: str, replicas: int) -> int:
        """Set a Deployment's number of replicas; return how many pods it has now.

        It raises ServersError if Kubernetes refuses the change or cannot be reached.
        """
        words = f"to {replicas} replica{'' if replicas == 1 else 's'}"
        return self._patch(deployment, {"spec": {"replicas": replicas}}, words)

    def try_scale(self, deployment: str) -> int:
        """Send what `scale` sends, but change nothing; return how many pods the Deployment has.

        The patch is empty: with the number that the manifest has, it would undo a change that a
        measuring Job of another deploy has made in the meantime.
        """
        return self._patch(deployment, {}, "with an empty patch")

    def _patch(self, deployment: str, patch: Mapping[str, Any], words: str) -> int:
        namespace, token = self._read("namespace"), self._read("token")
        hide_secret("Kubernetes token", token)
        path = f"apis/apps/v1/namespaces/{namespace}/deployments/{deployment}/scale"
        url = f"{self.url}/{path}"
        what = f"PATCH {url} {words}"
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/merge-patch+json",
            "Accept": "application/json",
        }
        try:
            answer = self._pool.request("PATCH", url, body=json.dumps(patch), headers=headers)
        except urllib3.exceptions.HTTPError as error:
            reason = one_line(str(error), characters=300)
            raise ServersError(
                f"{what}: no answer of Kubernetes after {TRIES} tries: {reason}; next: whether the "
                "network policy `load-generator` lets this pod reach the API server"
            ) from error
        if answer.status != 200:
            raise ServersError(f"{what}: {_refusal(answer, path)}")
        return _pods(answer, what)

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise ServersError(f"{self.folder / name}: cannot be read: {error}") from error

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        # Setting the replicas to the same number twice changes nothing, so a request is sent again
        # if its response was lost.
        retries = Retry(
            total=TRIES - 1,
            redirect=False,
            allowed_methods=["PATCH"],
            status_forcelist=_PASSING,
            backoff_factor=self.pause_seconds,
            backoff_max=LONGEST_PAUSE_SECONDS,
            retry_after_max=int(LONGEST_PAUSE_SECONDS),
            raise_on_status=False,
        )
        return urllib3.PoolManager(
            retries=retries, timeout=_TIMEOUT, ca_certs=str(self.folder / "ca.crt")
        )


@dataclass(frozen=True, kw_only=True)
class KubernetesServers:
    """The servers of a run: Deployments with the names in `Endpoint.server`.

    names: the names of all servers of the run.
    stopped_poll_seconds: the time between two looks at a stopped Deployment's number of pods.
    stopped_within_seconds: the longest wait until a stopped Deployment has no pods. Usually that
        takes only seconds, because a pod that has begun to terminate is not counted.
    """

    api: KubernetesApi
    names: Sequence[str]
    log: Callable[[str], None]
    stopped_poll_seconds: float = 1.0
    stopped_within_seconds: float = 120.0

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        """Start the servers of `endpoints` and stop all others.

        If the run is cancelled, this still goes on to its end: the Job's next pod has affinity to
        the servers' pods, so Kubernetes places it only if one of them runs.
        restart: also stop the servers of `endpoints` first.
        """
        wanted = tuple(endpoint.server for endpoint in endpoints)
        await in_thread(self._run_only, wanted, restart=restart)

    def _run_only(self, wanted: Sequence[str], *, restart: bool) -> None:
        unwanted = [name for name in self.names if name not in wanted]
        stopped = [*unwanted, *wanted] if restart else unwanted
        self.log(f"servers: {', '.join(wanted)}{', started anew' if restart else ''}")
        self._stop(stopped)
        for name in wanted:
            self.api.scale(name, 1)

    def _stop(self, names: Iterable[str]) -> None:
        # Wait until the number of pods is 0, because a Deployment that is scaled to 0 and at once
        # to 1 may keep its pod. The number leaves out pods that still terminate and hold devices.
        running = list(names)
        give_up_at_seconds = time.monotonic() + self.stopped_within_seconds
        while running := [name for name in running if self.api.scale(name, 0)]:
            if time.monotonic() >= give_up_at_seconds:
                raise ServersError(
                    f"{', '.join(running)}: still with pods {self.stopped_within_seconds:g} s "
                    "after they were stopped; next: `kubectl get deployments,pods` and the events "
                    "there, and whether something else sets their number of replicas"
                )
            time.sleep(self.stopped_poll_seconds)


def servers_of(
    spec: RunSpec, environment: Mapping[str, str], log: Callable[[str], None]
) -> Servers:
    """Return the object that starts and stops the servers of a run, or that leaves them running.

    It raises ServersError if the run has to start and stop servers and this is not a pod of a
    cluster.
    """
    if not spec.changes_servers:
        return FixedServers()
    names = tuple(dict.fromkeys(endpoint.server for endpoint in spec.endpoints))
    return KubernetesServers(api=KubernetesApi.of_this_pod(environment), names=names, log=log)


async def run_deployed_servers(servers: Servers, spec: RunSpec, log: Callable[[str], None]) -> None:
    """Start the servers with which the run began, and stop all others.

    A deploy starts the same servers, so the next Job finds those that it expects. A failure is only
    logged, because the run is over.
    servers: starts and stops the servers. spec: the run, whose first stage names these servers.
    """
    try:
        await servers.run_only(first_stage(spec).running, restart=False)
    except ServersError as error:
        log(f"servers are left as they are: {error}")


def _pods(answer: urllib3.BaseHTTPResponse, what: str) -> int:
    try:
        return int(json.loads(answer.data)["status"]["replicas"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ServersError(f"{what}: the answer is no Scale: {_message(answer)}") from error


def _refusal(answer: urllib3.BaseHTTPResponse, path: str) -> str:
    problem = f"HTTP {answer.status}: {_message(answer)}"
    namespace, kind, name, *part = path.partition("/namespaces/")[2].split("/")
    match answer.status:
        case 401 | 403:
            return (
                f"{problem}; allowed: for a service account with `patch` on "
                f"{'/'.join((kind, *part))} of {name}; next: kubectl get "
                f"role,rolebinding --namespace {namespace}, and "
                "deploy again where the role `scale-servers` is missing or does not name it"
            )
        case 404:
            return (
                f"{problem}; next: kubectl get {kind} --namespace {namespace}; where it is "
                "missing, deploy again: servers and measuring Job are of different deploys"
            )
        case status if status in _PASSING:
            return f"{problem}, after {TRIES} tries; next: `rerun` once the API server is well"
    return problem


def _message(answer: urllib3.BaseHTTPResponse) -> str:
    text = answer.data[:_WORDS_BYTES].decode("utf-8", "replace")
    try:
        message = json.loads(text)["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        message = text
    return one_line(str(message), characters=300)
