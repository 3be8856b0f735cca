"""The constructs of the stack, each in a module of its own."""
