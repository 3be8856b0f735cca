"""Computes a run's figures with their intervals. Standard library only."""
