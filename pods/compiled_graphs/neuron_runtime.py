"""Starts the Neuron runtime once, in its own process, and writes its state to a file.

`self_test` runs this program, because a runtime that hangs or crashes must not take the parent of
vLLM with it, and because the devices are free again once a process has ended.

The C API is that of AWS Neuron SDK (API reference, `nrt.h` and `nrt_version.h`): `nrt_init` takes a
framework (1: no framework) and two version texts, and returns 0 if it succeeds; `nrt_get_version`
fills a structure that begins with four 64-bit numbers. Two functions count the visible logical
cores; the newer one is not in every version of the library. The package's version is read from the
name of the library's real file (libnrt.so.2.31.24.0), because the header does not promise that
`nrt_get_version` returns it.
"""

import ctypes
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from draftworth.neuron_versions import why_unfit
from draftworth.records.codec import dump_record
from draftworth.safe_writing import write_file

LIBRARY = "libnrt.so.1"
# Where the package aws-neuronx-runtime-lib puts the library, if the search path does not have it.
_FOLDER = "/opt/aws/neuron/lib"
_NO_FRAMEWORK = 1
# Finds the package's version in the name of the library's file. Versions begin at 2.1: the 1 in
# the name libnrt.so.1 is not a version of the package, so the pattern does not match it.
_VERSION = r"(2\.[1-9]\d*\.\d+(?:\.\d+)?)"
_COUNTS = ("nrt_get_visible_vnc_count", "nrt_get_visible_nc_count")


class _Version(ctypes.Structure):
    _fields_ = (
        ("numbers", ctypes.c_uint64 * 4),
        ("detail", ctypes.c_char * 128),
        ("git_hash", ctypes.c_char * 64),
        ("more", ctypes.c_char * 1024),  # another version may have more fields
    )


@dataclass(frozen=True, kw_only=True)
class RuntimeState:
    """The state of the Neuron runtime, as far as the steps of `main` know it.

    Each step writes it to a file, because the next step may hang.
    missing: why the library was not found; empty: it was found. version: the runtime's version.
    unfit: why driver and runtime do not fit each other; empty: they fit, or a version is unknown.
    has_begun: whether `nrt_init` was called. status: its return value; None: it has not returned.
    init_s: seconds that `nrt_init` took. logical_cores: how many the runtime has; None: unknown.
    """

    missing: str = ""
    version: str = ""
    unfit: str = ""
    has_begun: bool = False
    status: int | None = None
    init_s: float | None = None
    logical_cores: int | None = None


def main(argv: list[str]) -> int:
    """Start the runtime, write a `RuntimeState` to a file after each step, and return 0.

    argv: the path of the file, and the version of the node's Neuron driver.
    """
    path, driver = Path(argv[0]), argv[1]

    def keep(state: RuntimeState) -> RuntimeState:
        write_file(path, dump_record(state))
        return state

    try:
        library = _library()
    except OSError as error:
        keep(RuntimeState(missing=str(error)))
        return 0
    state = keep(RuntimeState(version=_version(library)))
    try:
        unfit = why_unfit(driver=driver, runtime=state.version)
    except ValueError:  # One of the two versions is unknown.
        unfit = ""
    init = library.nrt_init  # raises AttributeError if this is another library
    state = keep(replace(state, unfit=unfit, has_begun=not unfit))
    if unfit:
        return 0
    began = time.monotonic()
    status = int(init(_NO_FRAMEWORK, b"", b""))
    state = keep(replace(state, status=status, init_s=time.monotonic() - began))
    if status == 0:
        keep(replace(state, logical_cores=_logical_cores(library)))
        library.nrt_close()
    return 0


def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return ctypes.CDLL(f"{_FOLDER}/{LIBRARY}")


def _version(library: ctypes.CDLL) -> str:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    if version_in_name := re.search(rf"/libnrt\.so\.{_VERSION}\n", maps):
        return version_in_name[1]
    version, size = _Version(), ctypes.c_size_t(_Version.more.offset)
    if library.nrt_get_version(ctypes.byref(version), size):
        return ""
    numbers = ".".join(map(str, version.numbers))
    return numbers if re.fullmatch(_VERSION, numbers) else ""


def _logical_cores(library: ctypes.CDLL) -> int | None:
    for name in _COUNTS:
        count = ctypes.c_uint32()
        if hasattr(library, name) and getattr(library, name)(ctypes.byref(count)) == 0:
            return count.value
    return None
