"""A stand-in for what a node with Neuron devices shows a container: driver, devices, runtime."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

FITTING_DRIVER, RUNTIME = "2.28.0.0", "2.30.51.0"
_SOURCES = Path(__file__).parent


def put_node(
    folder: Path,
    *,
    devices: int,
    driver: str = FITTING_DRIVER,
    runtime: str = RUNTIME,
    first: int = 0,
) -> Path:
    """Make `sys`, `dev` and `lib` (the runtime, if there is a compiler); return the folder.

    driver: empty for a node without one; a version that is there stays.
    """
    module = folder / "sys" / "module" / "neuron"
    for path in (module, folder / "dev", folder / "lib"):
        path.mkdir(parents=True, exist_ok=True)
    if driver and not (module / "version").exists():
        (module / "version").write_text(f"{driver}\n")
    for number in range(first, first + devices):
        (folder / "dev" / f"neuron{number}").touch()
    link = folder / "lib" / "libnrt.so.1"
    if has_compiler() and not link.exists():
        real = folder / "lib" / (f"libnrt.so.{runtime}" if runtime else "libnrt.so.unknown")
        real.write_bytes(compiled("neuron.c"))
        link.symlink_to(real.name)
    return folder


def has_compiler() -> bool:
    return shutil.which("cc") is not None


@cache
def compiled(name: str) -> bytes:
    """Return a shared library, compiled from a C file of this folder; skip without a compiler."""
    if not has_compiler():
        pytest.skip("no C compiler `cc` here, and the stand-in is a shared library")
    with TemporaryDirectory() as folder:
        library = Path(folder, "library.so")
        flags = ("-shared", "-fPIC", "-Wall", "-Werror")
        subprocess.run(["cc", *flags, "-o", library, _SOURCES / name, "-ldl"], check=True)
        return library.read_bytes()
