"""One compilation in a child process, and what became of it: by the engine's own loader."""

from __future__ import annotations

import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import RecordError, load_object, load_record
from draftworth.untrusted import TooLargeError, read_file
from pods.compiled_graphs.engine_folders import EngineFolders
from pods.compiled_graphs.log_tail import LogTail
from pods.compiled_graphs.server_process import ServerProcess
from pods.graph_compiler.memory import PodMemory

SCRIPT = Path(__file__).with_name("compile_only.py")
TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
LOGICAL_CORES_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"
CONFIGURATION_FILE = "neuron_config.json"
# NxD Inference writes the one first and the other last (its `compile`); it loads both.
REQUIRED_FILES = (CONFIGURATION_FILE, "model.pt")
# neuronx-cc's own words where the kernel has killed a process of it.
_KILLED = "neuronx-cc was forcibly killed"


class NoGraphsError(UserInputError):
    """There are no graphs, and another try would have none either."""


class CutOffError(DraftworthError):
    """It ended early, for a reason that another try may not meet."""


class MemoryRanOutError(CutOffError):
    """The kernel killed it: with fewer workers it may fit."""

    exit_code = 128 + signal.SIGKILL


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the child says once it has compiled. target: empty where the image cannot say."""

    target: str
    packages: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Whole graphs. packages: versions of what took part."""

    graphs: Path
    started_at_unix_s: float
    packages: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Compilation(ABC):
    """What is to be compiled, and with how much.

    root: the empty folder that the engine is told of, where it is when it serves: paths are written
        into the configuration. scratch: for everything else.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folders: EngineFolders
    root: Path
    scratch: Path
    workers: int
    cpus: int

    @property
    def graphs(self) -> Path:
        """The folder with what was made."""
        return self.folders.graphs(self.root)

    def working_folder(self) -> Path:
        """Where the engine may write beside its graphs, as into a server's working directory; this
        container's own is read-only."""
        folder = self.scratch / "work"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @abstractmethod
    def compile(self, tail: LogTail, memory: PodMemory) -> Mapping[str, str]:
        """Do it; versions of what took part, by name. Raises what `run` does."""

    def run(self, tail: LogTail, memory: PodMemory) -> Compiled:
        """Compile.

        Raises:
            NoGraphsError: no retry would change it.
            CutOffError: another try may do better, with fewer workers where memory ran out.
            OSError: the scratch folder cannot be used.
        """
        if not self.environment.get(TARGET_VARIABLE):
            raise NoGraphsError(
                f"{TARGET_VARIABLE}: not set; allowed: the accelerator to compile for, as trn2: "
                "without it the compiler looks for the devices of this machine"
            )
        started_at_unix_s = time.time()
        packages = self.compile(tail, memory)
        return Compiled(graphs=self.graphs, started_at_unix_s=started_at_unix_s, packages=packages)


class StoppedBeforeLoading(Compilation):
    """vLLM's own loader in a child process that ends before anything goes to a device."""

    def compile(self, tail: LogTail, memory: PodMemory) -> Mapping[str, str]:
        """Run the child, and look at what it made."""
        code = self._run_child(tail)
        said = self._said()
        if code != 0 or said is None:
            raise failure(code, tail, memory)
        self._check(said)
        return said.packages

    def _run_child(self, tail: LogTail) -> int:
        work = self.working_folder()
        # -P: the child finds the image's modules and not those beside its own file.
        command = [
            *(sys.executable, "-P", str(SCRIPT), f"--said={self._said_path}", f"--work={work}"),
            *(f"--workers={self.workers}", f"--cpus={self.cpus}", "--", *self.command),
        ]
        environment = {
            **self.environment,
            self.folders.variable: str(self.root),
            # Where vLLM would have its newer engine in a process of its own.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        }
        return ServerProcess(command, environment, tail).wait()

    @property
    def _said_path(self) -> Path:
        return self.scratch / "said.json"

    def _said(self) -> Said | None:
        try:
            return load_record(Said, read_file(self._said_path))
        except (OSError, RecordError, TooLargeError):
            return None

    def _check(self, said: Said) -> None:
        """Whether what was made is what was asked for, as far as it says; raises NoGraphsError."""
        asked = self.environment[TARGET_VARIABLE]
        if said.target not in ("", asked):
            raise NoGraphsError(
                f"compiled for {said.target}, asked for {asked} ({TARGET_VARIABLE}): such graphs "
                "do not load"
            )
        missing = [name for name in REQUIRED_FILES if not _has_content(self.graphs / name)]
        if missing:
            raise NoGraphsError(
                f"vLLM says that it has compiled, and {', '.join(missing)} of {self.graphs} is "
                "not there or empty"
            )
        made, wanted = self._logical_cores(), self.environment.get(LOGICAL_CORES_VARIABLE)
        if made is not None and wanted is not None and str(made) != wanted:
            raise NoGraphsError(
                f"compiled for {made} physical cores in a logical one, asked for {wanted} "
                f"({LOGICAL_CORES_VARIABLE})"
            )

    def _logical_cores(self) -> Any:
        try:
            written = load_object(read_file(self.graphs / CONFIGURATION_FILE))
        except (RecordError, TooLargeError) as error:
            raise NoGraphsError(f"{CONFIGURATION_FILE} cannot be read: {error}") from error
        settings = written.get("neuron_config")
        return settings.get("logical_nc_config") if isinstance(settings, dict) else None


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def failure(code: int, tail: LogTail, memory: PodMemory) -> DraftworthError:
    """Why a child has compiled nothing."""
    if memory.kills or any(_KILLED in line for line in tail.lines()):
        return MemoryRanOutError(f"memory ran out: the kernel killed a process; {_memory(memory)}")
    if code == 128 + signal.SIGKILL:
        return MemoryRanOutError(
            f"killed (SIGKILL), most likely because memory ran out; {_memory(memory)}"
        )
    if code > 128:
        return CutOffError(f"ended by signal {code - 128}")
    if tail.compiler_failed:
        return NoGraphsError("the compiler failed by itself (exit code 70)")
    return NoGraphsError(f"vLLM ended with exit code {code} and has compiled nothing")


def _memory(memory: PodMemory) -> str:
    peak, limit = (
        "not known" if size is None else f"{size / 2**30:.1f} GiB"
        for size in (memory.peak_bytes, memory.limit_bytes)
    )
    return f"used at most: {peak}, allowed: {limit}"


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
