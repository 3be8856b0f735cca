"""How long a test waits for what will come: only what hangs takes this long, however busy the
machine is."""

from __future__ import annotations

HANGS_AFTER_SECONDS = 300.0
