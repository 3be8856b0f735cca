"""Containers as processes of this machine: a root, a network and a user of their own.

A root is the machine's own root under a layer that goes with the container (overlayfs), with the
container's mounts at the paths of its pod. All needs the rights of root in the test run's mounts
and network, which are its own (`make test-cluster`).
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
# The first address of the Services: pods use it as the API server's.
KUBERNETES = "172.20.0.1"
_PREFIX_BITS = 16


@dataclass(frozen=True, kw_only=True)
class Mount:
    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a container runs.

    user: id of user and group; None: root.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    working_folder: str
    mounts: Sequence[Mount]
    user: int | None = None
    read_only_root: bool = False


@dataclass(kw_only=True)
class PodNetwork:
    """A switch for all pods, one per test run; `HOST` is this machine's address in it."""

    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(2))

    def __post_init__(self) -> None:
        # A network's name is a file in this folder, which is mounted for the test run only.
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
    """A pod's network, which is removed with the pod."""

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
        """The exit code, as Kubernetes counts: 128 and the signal's number; None while it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def tell_to_end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        end_family(self.process)
        # Processes that outlived the container's first process.
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
    # Only the devices that every container has, and those of its mounts.
    yield f"mount -t tmpfs tmpfs {root}/dev && mkdir -m 1777 {root}/dev/shm"  # noqa: S108
    for name in ("full", "null", "random", "tty", "urandom", "zero"):
        yield f"touch {root}/dev/{name} && mount --bind /dev/{name} {root}/dev/{name}"
    yield f"ln -s /proc/self/fd {root}/dev/fd"
    # Every user must be able to run an interpreter below a home folder.
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
