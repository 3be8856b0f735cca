"""Sends an experiment's requests, measures them and writes the result files of a run.

This package runs in the measuring Job's pod and on a laptop, so its only dependency beside the
standard library is `httptools`.
"""
