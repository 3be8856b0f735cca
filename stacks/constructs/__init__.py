"""The constructs of the stack: one capability a module."""
