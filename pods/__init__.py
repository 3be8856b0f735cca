"""Code that runs in pods."""
