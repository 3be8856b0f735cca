"""Whole lives of an experiment: from its file to an empty account, against the emulator."""
