"""Measuring: the client, the runner and what they share with the pod that runs them.

Runs in the load generator's pod as well as on a laptop, so it needs the standard library and
`httptools` only.
"""
