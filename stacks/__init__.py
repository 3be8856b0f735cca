"""The AWS side of an experiment, one CDK stack: one file a part of it, one construct a capability.

`application.build_application` is the way in, for `app.py`, the tests and the benchmark.
"""
