"""The clients that `fidelity.py` compares; each runs as a process of its own."""
