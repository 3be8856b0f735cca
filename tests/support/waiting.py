"""How long a test waits: only a program that hangs takes so long, even on a busy machine."""

HANGS_AFTER_SECONDS = 300.0
