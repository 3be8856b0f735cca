"""Checks whether a Neuron driver and a Neuron runtime work together, by their versions.

The driver comes with the node's image and the runtime with the serving image. If they do not fit,
`nrt_init()` fails, and no server starts on the node.

Source: AWS Neuron SDK, release notes of the runtime: driver 2.29 needs runtime 2.33 or later.
"""

import re
from typing import Final

# Pairs of (major, minor) versions: a driver of the first version or later needs a runtime of the
# second version or later.
NEEDED_RUNTIMES: Final = (((2, 29), (2, 33)),)
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,12}){0,3}")


def major_and_minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version such as 2.29.0.0.

    Raises:
        ValueError: the text is no version.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"given {version!r}, allowed: a version such as 2.29.0.0")
    return int(match[1]), int(match[2])


def why_unfit(*, driver: str, runtime: str) -> str:
    """Return why a driver does not work with a runtime; empty if no known rule forbids the pair.

    Raises:
        ValueError: `driver` or `runtime` is no version.
    """
    has = major_and_minor(runtime)
    for first_driver, first_runtime in NEEDED_RUNTIMES:
        if major_and_minor(driver) >= first_driver and has < first_runtime:
            return (
                f"Neuron driver {driver} needs Neuron runtime {'.'.join(map(str, first_runtime))} "
                f"or later, and the serving image has runtime {runtime}"
            )
    return ""
