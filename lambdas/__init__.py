"""Functions that run in AWS Lambda: one folder each, deployable alone."""
