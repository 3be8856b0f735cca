"""Measurements of draftbench itself: fidelity of its client, its synthesis, its publisher."""
