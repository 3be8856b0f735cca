"""Reads the baseline's outputs of a search with each of its drafts, on a CPU node."""
