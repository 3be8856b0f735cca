"""What the stacks are made of: one capability a module."""
