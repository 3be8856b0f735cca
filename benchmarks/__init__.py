"""Measurements of draftworth itself: fidelity of its client, its synthesis, its publisher."""
