"""What the compiler compiles for."""

from __future__ import annotations

import os


def get_platform_target() -> str:
    if os.environ.get("TROUBLE") == "target":
        return "trn1"
    return os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"]
