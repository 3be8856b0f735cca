"""The AWS side of an experiment, as CDK stacks: one file a stack, one construct a capability.

`application.build_application` is the way in, for `app.py`, the tests and the benchmark.
"""
