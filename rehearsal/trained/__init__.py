"""Fetches, checks and converts published models and prompts for `make rehearse-real`."""
