"""The two clients of this project that `fidelity.py` runs, each in its own process."""
