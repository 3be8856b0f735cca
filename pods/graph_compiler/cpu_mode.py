"""The second way: engines with a CPU mode, in which a server compiles and executes nothing.

The server's own command is started with the variables of that mode (the catalogue's `cpu_compile`).
It has compiled everything when it is healthy, or ends well; then its cache is what was made. No
request is sent: there is nothing that could answer. The mode takes no speculation.
`docs/decisions/0026-compiled-without-a-device.md` says where it was read.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from pods.compiled_graphs.handover import compiled_files
from pods.compiled_graphs.health import HEALTH_PERIOD_SECONDS, is_healthy
from pods.compiled_graphs.log_tail import LogTail
from pods.compiled_graphs.server_process import ServerProcess
from pods.graph_compiler.compilation import Compilation, NoGraphsError, failure
from pods.graph_compiler.compile_only import versions
from pods.graph_compiler.memory import PodMemory

# Compilers at once (8 where nobody says), by their names before and since vLLM 0.24; and processes
# that trace graphs, for each rank of the tensor parallel size.
WORKER_VARIABLES = (
    "NEURON_LIBTORCH_PARALLEL_COMPILE_WORKERS",
    "VLLM_NEURON_PARALLEL_COMPILE_WORKERS",
    "VLLM_NEURON_PARALLEL_TRACE_WORKERS",
)
GRACE_SECONDS = 30.0
# Before vLLM takes its place: its working directory, SIGTERM, which this program blocks for itself,
# and its CPUs, by which what it starts may size its threads.
_LAUNCH = (
    "import os, signal, sys; "
    "os.chdir(sys.argv[2]); "
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}); "
    "os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])]); "
    "os.execvp(sys.argv[3], sys.argv[3:])"
)
# vLLM's own, where the command says none.
PORT = "8000"


@dataclass(frozen=True, kw_only=True)
class CpuMode(Compilation):
    """A server that is started for its cache.

    health_period_seconds: between two looks.
    """

    health_period_seconds: float = HEALTH_PERIOD_SECONDS

    def compile(self, tail: LogTail, memory: PodMemory) -> Mapping[str, str]:
        """Run it until it is healthy, or ends."""
        environment = {
            **self.environment,
            self.folders.variable: str(self.root),
            **dict.fromkeys(WORKER_VARIABLES, str(self.workers)),
        }
        launch = [sys.executable, "-c", _LAUNCH, str(self.cpus), str(self.working_folder())]
        command = [*launch, *self.command]
        server = ServerProcess(command, environment, tail)
        over = threading.Event()
        watching = threading.Thread(target=self._watch, args=(server, over), daemon=True)
        watching.start()
        code = server.wait()
        watching.join()
        if code != 0 and not over.is_set():
            raise failure(code, tail, memory)
        if not any(compiled_files(self.graphs)):
            raise NoGraphsError(f"vLLM has started in its CPU mode, and {self.graphs} is empty")
        return versions()

    def _watch(self, server: ServerProcess, over: threading.Event) -> None:
        """End it once it is healthy: it would wait for requests."""
        while not server.ended.wait(self.health_period_seconds):
            if is_healthy(self._health_url):
                over.set()
                server.end(grace_seconds=GRACE_SECONDS)
                return

    @property
    def _health_url(self) -> str:
        ports = (part.partition("=")[2] for part in self.command if part.startswith("--port="))
        return f"http://127.0.0.1:{next(ports, PORT)}/health"
