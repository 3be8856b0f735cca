"""A model that compiles slowly and loads nowhere. What goes wrong is in the variable `TROUBLE`.

As NxD Inference does: the configuration is written first, `model.pt` last, and each graph is
compiled by a program of its own, from a pool of a default size.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GRAPHS = 6
TROUBLE = os.environ.get("TROUBLE", "")


class NeuronApplicationBase:
    def __init__(self, model_path: str, config: Any = None) -> None:
        if config is None:
            config = json.loads((Path(model_path) / "neuron_config.json").read_text())
        self.config = config

    def compile(self, compiled_model_path: str) -> None:
        folder = Path(compiled_model_path)
        folder.mkdir(parents=True, exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            made = {**self.config, "workers": pool._max_workers}
            settings = {"logical_nc_config": 1 if TROUBLE == "cores" else 2}
            settings |= {"save_sharded_checkpoint": False}
            made |= {"neuron_config": settings, "cpus": len(os.sched_getaffinity(0))}
            (folder / "neuron_config.json").write_text(json.dumps(made))
            Path("graph.hlo").write_text("where the builder works")
            list(pool.map(compile_graph, range(GRAPHS)))
        trouble(workers=pool._max_workers)
        (folder / "model.pt").write_bytes(b"" if TROUBLE == "empty" else b"graph" * 2000)

    def load(self, _: str) -> None:
        raise RuntimeError("nrt_init: no devices")


def compile_graph(number: int) -> None:
    text = f"open('{number}.neff', 'w').close()"
    subprocess.run([sys.executable, "-c", text], check=True)


def trouble(*, workers: int) -> None:
    if TROUBLE == "killed" or (TROUBLE == "killed unless alone" and workers > 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if TROUBLE == "crash":
        os.kill(os.getpid(), signal.SIGABRT)
    if TROUBLE == "compiler":
        raise RuntimeError("neuronx-cc compilation failed with 70. Check compiler logs.")
    if TROUBLE == "a compiler killed":
        raise RuntimeError("[F137] neuronx-cc was forcibly killed - This most commonly occurs")
    if TROUBLE == "hang":
        sys.stderr.write("compiling\n")
        subprocess.run(["sleep", "600"], check=True)
    if TROUBLE == "wait":
        sys.stderr.write("compiling\n")
        while not Path(os.environ["GO"]).exists():
            time.sleep(0.05)
