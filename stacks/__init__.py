"""The AWS resources of an experiment: one CDK stack, with a module for each of its parts.

`app.py`, the tests and the benchmark call `application.build_application`.
"""
