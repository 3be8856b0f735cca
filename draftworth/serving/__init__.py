"""Serving one variant: flags and environment in each dialect, and the artifact key."""
