"""`draftworth schema` prints the JSON Schema of experiment files."""

import argparse
import json

from draftworth.experiment.loading import experiment_json_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing to the parser, because this command has no arguments."""


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Print the schema."""
    print(json.dumps(experiment_json_schema(), indent=2))
    return 0
