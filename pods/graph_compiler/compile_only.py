"""vLLM as the server starts it, up to the moment when the compiled model would go to the devices.

Run as a script, by the parent in `compilation`, in an interpreter of its own that finds none of our
modules: vLLM must meet the image as a server does. The server's command line is parsed by vLLM's
own parser and its model is built and compiled by vLLM's own loader, so what is compiled cannot
differ from what the server would compile. `docs/decisions/0026-compiled-without-a-device.md` names
each seam and where it was read.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import importlib.metadata
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

PACKAGES = (
    *("vllm", "vllm-neuron", "neuronx-distributed-inference", "neuronx-distributed"),
    *("torch-neuronx", "neuronx-cc", "torch"),
)


class CompiledError(BaseException):
    """Raised instead of loading. No `Exception`: the engine must not catch it."""


def main(argv: list[str]) -> NoReturn:
    """Compile, say so in a file, and end."""
    split = argv.index("--")
    arguments = _parser().parse_args(argv[:split])
    # Blocked by the parent for itself; the compiler's own pools end their workers with it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # What the compiler starts inherits it, and sizes its threads by it where it asks the kernel.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cpus])
    # The model builder writes into the working directory.
    os.chdir(arguments.work)
    _cap_workers(arguments.workers)
    _stop_before_loading()
    try:
        _serve(argv[split + 1 :])
    except CompiledError:
        said = {"target": _target(), "packages": versions()}
        arguments.said.write_text(json.dumps(said), encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: destructors of a model that was never loaded have nothing left to do.
        os._exit(0)
    sys.exit("vLLM ended and has compiled nothing")


def _cap_workers(workers: int) -> None:
    """The model builder starts one compiler a graph, from a pool of a default size."""
    pool = concurrent.futures.ThreadPoolExecutor

    class Capped(pool):  # type: ignore[misc,valid-type]
        def __init__(self, max_workers: int | None = None, *args: Any, **more: Any) -> None:
            super().__init__(workers if max_workers is None else max_workers, *args, **more)

    concurrent.futures.ThreadPoolExecutor = Capped  # type: ignore[misc]


def _stop_before_loading() -> None:
    base: Any = _named("neuronx_distributed_inference.models.application_base")
    application = base.NeuronApplicationBase
    compile_model = application.compile
    compiled: set[str] = set()

    def compile_and_note(self: Any, path: str, *args: Any, **more: Any) -> None:
        compile_model(self, path, *args, **more)
        compiled.add(path)

    def load(_: Any, path: str, *__: Any, **___: Any) -> NoReturn:
        if path not in compiled:  # what the loader expects where nothing is compiled yet
            raise FileNotFoundError(f"{path}: nothing is compiled there yet")
        raise CompiledError

    application.compile = compile_and_note
    application.load = load


def _serve(command: list[str]) -> None:
    """`vllm serve ...`, with the engine alone in the place of the API server."""
    _named("vllm.entrypoints.cli.serve").ServeSubcommand.cmd = staticmethod(_build_engine)
    sys.argv = command
    _named("vllm.entrypoints.cli.main").main()


def _build_engine(arguments: argparse.Namespace) -> None:
    if getattr(arguments, "model_tag", None) is not None:
        arguments.model = arguments.model_tag  # as `vllm serve` does first
    engine_arguments = _named("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(arguments)
    usage = _named("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
    engine = _named("vllm.engine.llm_engine").LLMEngine
    # In this process: on Neuron one worker drives all devices.
    engine.from_engine_args(engine_arguments, usage_context=usage)


def _target() -> str:
    """What the compiler was told to compile for; empty where the image cannot say."""
    try:
        return str(_named("torch_neuronx.utils").get_platform_target())
    except (ImportError, AttributeError):
        return ""


def versions() -> dict[str, str]:
    """Of what takes part, where it is installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _named(module: str) -> Any:
    """A module of the image, which is not there where this file is checked."""
    return importlib.import_module(module)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="compile_only", description=__doc__)
    parser.add_argument("--said", required=True, type=Path, help="written once it is compiled")
    parser.add_argument("--work", required=True, type=Path, help="the working directory")
    parser.add_argument("--workers", required=True, type=int, help="compilers at once, at most")
    parser.add_argument("--cpus", required=True, type=int, help="CPUs that it may use")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
