"""Functions for AWS Lambda: each folder is one function, which can be deployed alone."""
