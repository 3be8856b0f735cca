"""The time after which a test stops waiting: on a busy machine, too, only a hang takes so long."""

HANGS_AFTER_SECONDS = 300.0
