"""How long a test waits for what will come: only what hangs takes this long, however busy the
machine is."""

HANGS_AFTER_SECONDS = 300.0
