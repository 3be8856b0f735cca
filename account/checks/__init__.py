"""The checks of `draftbench preflight`: each a small function from the situation to an outcome."""
