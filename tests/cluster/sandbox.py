"""Containers as processes of this machine, each with a root, a network and a user of its own.

The root of a container shows the machine's files. What the container writes is in an overlayfs
layer that is deleted with it, and its mounts are at the paths that its pod says. The test run must
be root in mount and network namespaces of its own (`make test-cluster`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import end_family

BRIDGE = "pods"
HOST = "10.77.0.1"
# The first address of the range for Services, at which pods reach the API server.
KUBERNETES = "172.20.0.1"
_PREFIX_BITS = 16


@dataclass(frozen=True, kw_only=True)
class Mount:
    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program of a container, with all that it needs.

    user: the id of its user, and of its group; None: root.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    working_folder: str
    mounts: Sequence[Mount]
    user: int | None = None
    read_only_root: bool = False


@dataclass(kw_only=True)
class PodNetwork:
    """A network bridge to which all pods are connected; there is one per test run.

    `HOST` is this machine's address in it.
    """

    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(2))

    def __post_init__(self) -> None:
        # `ip netns` keeps a file for each network in /run, so the test run gets a /run of its own.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{HOST}/{_PREFIX_BITS}", "dev", BRIDGE)
        _ip("address", "add", f"{KUBERNETES}/32", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")

    def add(self) -> PodInterface:
        number = next(self._numbers)
        name, address = f"pod{number}", f"10.77.{number // 250}.{number % 250 + 1}"
        _ip("netns", "add", name)
        _ip("link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", f"v{number}", "master", BRIDGE, "up")
        _ip("-n", name, "address", "add", f"{address}/{_PREFIX_BITS}", "dev", "eth0")
        for link in ("lo", "eth0"):
            _ip("-n", name, "link", "set", link, "up")
        _ip("-n", name, "route", "add", KUBERNETES, "via", HOST)
        return PodInterface(name=name, address=address)


@dataclass(frozen=True, kw_only=True)
class PodInterface:
    """The network namespace of a pod with its address; it is removed with the pod."""

    name: str
    address: str

    def remove(self) -> None:
        _ip("netns", "delete", self.name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@dataclass(kw_only=True)
class Sandbox:
    process: subprocess.Popen[bytes]
    log: Path

    def exit_code(self) -> int | None:
        """The process's exit code, or None while it runs.

        After a signal it is 128 + the signal's number, as in Kubernetes.
        """
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def tell_to_end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        end_family(self.process)
        # Other processes of the container may have outlived its first process.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def start(program: Program, network: PodInterface, folder: Path) -> Sandbox:
    """Start a container's process; its output is appended to `folder/log`."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "start.sh"
    script.write_text("\n".join(_script(program, folder / "box")))
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            ["ip", "netns", "exec", network.name, "unshare", "--mount", "sh", "-eu", script],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Its own process group, so that its child processes end with it.
            start_new_session=True,
        )
    return Sandbox(process=process, log=folder / "log")


def _script(program: Program, box: Path) -> Iterator[str]:
    root, layer = box / "root", box / "layer"
    yield f"mkdir -p {box} && mount -t tmpfs tmpfs {box}"
    yield f"mkdir {root} {layer} {box}/work"
    yield f"mount -t overlay overlay -o lowerdir=/,upperdir={layer},workdir={box}/work {root}"
    for folder in ("/proc", "/sys"):
        yield f"mount --rbind {folder} {root}{folder}"
    # /dev has only the devices that every container has; mounts may add others.
    yield f"mount -t tmpfs tmpfs {root}/dev && mkdir -m 1777 {root}/dev/shm"  # noqa: S108
    for name in ("full", "null", "random", "tty", "urandom", "zero"):
        yield f"touch {root}/dev/{name} && mount --bind /dev/{name} {root}/dev/{name}"
    yield f"ln -s /proc/self/fd {root}/dev/fd"
    # The Python interpreter may be below a home folder, and the container's user must reach it.
    for parent in Path(sys.executable).resolve().parents:
        yield f"chmod a+x {root}{parent}"
    for mount in sorted(program.mounts, key=lambda m: m.target):
        yield from _mount(mount, f"{root}{mount.target}")
    if program.read_only_root:
        yield f"mount -o remount,ro {root}"
    user = [f"--userspec={program.user}:{program.user}", "--groups="] if program.user else []
    variables = [f"{name}={value}" for name, value in program.environment.items()]
    enter = 'cd "$0" && exec "$@"'
    command = ["chroot", *user, str(root), "env", "-i", *variables, "sh", "-c", enter]
    yield f"exec {shlex.join([*command, program.working_folder, *program.command])}"


def _mount(mount: Mount, target: str) -> Iterator[str]:
    source, place = shlex.quote(str(mount.source)), shlex.quote(target)
    yield f"mkdir -p {place}" if mount.source.is_dir() else f"[ -e {place} ] || touch {place}"
    yield f"mount --bind {source} {place}"
    if mount.read_only:
        yield f"mount -o remount,bind,ro {place}"
