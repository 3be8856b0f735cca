"""`draftworth delete-assets`: what an experiment's deploys left in CDK's asset bucket, deleted.

The prompts of this deploy and of every earlier one are there, with templates and the functions'
packages. CDK keeps them for ever and prompts may be personal, so `make
destroy` ends with this: every version goes. Exit code 0: nothing is there any more; 1: the stack
that reads it still exists, or AWS refused; 2: the experiment file is wrong.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from account.asset_store import delete_versions, is_asset_bucket, stored_versions
from account.clients import client, explained, listed, or_none
from account.terminal import print_lines
from draftworth.errors import DraftworthError
from draftworth.planning.resolved import ResolvedNeuron, load_neuron


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment file."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")


def run(arguments: argparse.Namespace) -> int:
    """Delete, and say what."""
    experiment = load_neuron(arguments.experiment)
    _refuse_while_in_use(experiment)
    region, folder = experiment.spec.aws.region, experiment.names.assets
    s3, deleted = client("s3", region), 0
    with explained("list the buckets", region=region):
        names = list(listed(s3, "list_buckets", "Buckets[].Name"))
    for bucket in (name for name in names if is_asset_bucket(name, region)):
        with explained(f"delete every version below s3://{bucket}/{folder}", region=region):
            versions = list(stored_versions(s3, bucket, folder))
            delete_versions(s3, bucket, versions)
        if versions:
            print_lines([f"deleted {len(versions)} versions of files in s3://{bucket}/{folder}"])
        deleted += len(versions)
    if not deleted:
        print_lines([f"no file in a folder {folder} of CDK's asset bucket in {region}"])
    return 0


def _refuse_while_in_use(experiment: ResolvedNeuron) -> None:
    """Every pod of the measuring Job reads its prompts when it starts."""
    region, stack = experiment.spec.aws.region, experiment.names.stack
    with explained(f"look for the stack {stack}", region=region):
        describe = client("cloudformation", region).describe_stacks
        if or_none(describe, "ValidationError", StackName=stack):
            raise DraftworthError(
                f"the stack {stack} in {region} still exists, and its measuring Job reads what "
                "would be deleted; next: `make destroy`, which ends with this command"
            )
