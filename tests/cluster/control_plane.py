"""A Kubernetes control plane on loopback: etcd, API server, controllers, scheduler; no kubelet.

The programs are in the folder that the environment variable KUBE_BINARIES names. They are ended by
their process ids when the `with` block ends. If the test run is killed, they end with its process
namespace (`make test-cluster`).
"""

import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cluster.api import Api
from tests.pods.compiled_graphs.pods import eventually, free_port
from tests.support.waiting import HANGS_AFTER_SECONDS

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
LOCAL = "127.0.0.1"
SERVICES = "172.20.0.0/16"
# All controllers except those for a cloud provider. LOST_AFTER: a node whose lease is not renewed
# counts as lost soon.
CONTROLLERS = (
    "--controllers=*,-nodeipam,-cloud-node-lifecycle,-service-lb-controller,-node-route-controller"
)
LOST_AFTER = "--node-monitor-grace-period=15s"
SHOWN_LINES = 20


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """A control plane that is ready for requests.

    binaries: the folder of its programs. kubeconfig: an administrator's file for kubectl.
    """

    api: Api
    binaries: Path
    kubeconfig: Path

    def kubectl(self, *arguments: str, text_in: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.binaries / "kubectl", "--kubeconfig", self.kubeconfig, *arguments],
            input=text_in,
            text=True,
            capture_output=True,
            timeout=HANGS_AFTER_SECONDS,
            check=False,
        )


@dataclass(frozen=True, kw_only=True)
class _Programs:
    """Starts programs with a log file each, and ends them when `ending` is closed."""

    binaries: Path
    folder: Path
    ending: ExitStack

    def start(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        log = self.ending.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen([self.binaries / name, *flags], stdout=log, stderr=log)
        self.ending.callback(_end, process)
        return process

    def logs(self) -> str:
        return "\n".join(
            "\n".join(
                [f"== {log.stem}", *log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]]
            )
            for log in sorted(self.folder.glob("*.log"))
        )


@contextmanager
def control_plane(binaries: Path, folder: Path) -> Iterator[ControlPlane]:
    """Start a control plane with its data in `folder`, and end it when the `with` block ends.

    Raises:
        RuntimeError: it did not get ready; the last lines of its logs are in the message.
    """
    with ExitStack() as ending:
        programs = _Programs(binaries=binaries, folder=folder, ending=ending)
        try:
            yield _started(programs)
        except AssertionError:
            print(programs.logs())  # noqa: T201 (pytest shows it where the test failed)
            raise


def _started(programs: _Programs) -> ControlPlane:
    folder = programs.folder
    etcd = _start_etcd(programs)
    token, port = uuid.uuid4().hex, free_port()
    server = _start_api_server(programs, etcd, token, port)
    certificate = folder / "certificates" / "apiserver.crt"
    api = Api(url=f"https://{LOCAL}:{port}", token=token, certificate=certificate)
    _wait(programs, lambda: server.poll() is None and certificate.exists() and _is_ready(api))
    kubeconfig = _write_kubeconfig(folder / "kubeconfig", api)
    _start_controllers(programs, kubeconfig)
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    _wait(programs, lambda: api.find(account) is not None)
    return ControlPlane(api=api, binaries=programs.binaries, kubeconfig=kubeconfig)


def _wait(programs: _Programs, is_there: Callable[[], object]) -> None:
    try:
        eventually(is_there, seconds=HANGS_AFTER_SECONDS)
    except AssertionError as error:
        raise RuntimeError(f"the control plane is not ready:\n{programs.logs()}") from error


def _is_ready(api: Api) -> bool:
    try:
        return api.call("GET", "/readyz").ok
    except requests.ConnectionError:
        return False


def _start_etcd(programs: _Programs) -> str:
    clients, peers = (f"http://{LOCAL}:{free_port()}" for _ in range(2))
    programs.start(
        "etcd",
        f"--data-dir={programs.folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        "--unsafe-no-fsync",
    )
    return clients


def _start_api_server(
    programs: _Programs, etcd: str, token: str, port: int
) -> subprocess.Popen[bytes]:
    folder = programs.folder
    key = folder / "service-accounts.key"
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{token},admin,admin,system:masters\n")
    return programs.start(
        "kube-apiserver",
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        # Pods have their own networks here, and reach the API server at its Service's address.
        "--bind-address=0.0.0.0",
        f"--advertise-address={LOCAL}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={folder / 'certificates'}",
        "--service-account-issuer=https://issuer.example.com",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--service-cluster-ip-range={SERVICES}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--token-auth-file={tokens}",
        "--allow-privileged",
    )


def _start_controllers(programs: _Programs, kubeconfig: Path) -> None:
    for name, flags in (
        (
            "kube-controller-manager",
            (
                f"--service-account-private-key-file={programs.folder / 'service-accounts.key'}",
                # The certificate by which pods trust the API server.
                f"--root-ca-file={programs.folder / 'certificates' / 'apiserver.crt'}",
                "--use-service-account-credentials",
                CONTROLLERS,
                LOST_AFTER,
            ),
        ),
        ("kube-scheduler", ()),
    ):
        programs.start(
            name,
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            f"--bind-address={LOCAL}",
            f"--secure-port={free_port()}",
            f"--cert-dir={programs.folder / name}",
            *flags,
        )


def _write_kubeconfig(path: Path, api: Api) -> Path:
    cluster = {"server": api.url, "certificate-authority": str(api.certificate)}
    context = {"cluster": "test", "user": "admin"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": api.token}}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
