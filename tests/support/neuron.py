"""Makes folders that stand in for a Neuron node's driver, devices and runtime library."""

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
    """Make in `folder` what a container sees of a Neuron node in /sys and /dev; return `folder`.

    `sys` and `dev` hold the driver's version and the devices. `lib` holds a stand-in for the
    runtime library, if this machine has a C compiler.
    devices: number of devices, which are numbered from `first`.
    driver: the driver's version, empty for a node without a driver. If an earlier call has written
        a version, that one is kept.
    runtime: the version in the runtime library's file name, empty if the name has none.
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
    """Return the bytes of a shared library that is compiled from the C file `name` in this folder.

    The test is skipped if this machine has no C compiler.
    """
    if not has_compiler():
        pytest.skip("no C compiler `cc` here, and the stand-in is a shared library")
    with TemporaryDirectory() as folder:
        library = Path(folder, "library.so")
        flags = ("-shared", "-fPIC", "-Wall", "-Werror")
        subprocess.run(["cc", *flags, "-o", library, _SOURCES / name, "-ldl"], check=True)
        return library.read_bytes()
