"""Computes a run's figures with intervals, and its verdict. Standard library only."""
