"""`draftworth delete-assets`: deletes what an experiment's deploys left in CDK's asset bucket.

The bucket is the account's. `cdk bootstrap` makes it versioned, and CDK deletes nothing in it.

The prompts of this deploy and of every earlier one are there, with templates and the functions'
packages. CDK keeps them for ever and prompts may be personal, so `make
destroy` ends with this: every version goes. Exit code 0: nothing is there any more; 1: the stack
that reads it still exists, or AWS refused; 2: the experiment file is wrong.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from draftworth.account.clients import client, explained, listed, or_none
from draftworth.account.printing import print_lines
from draftworth.errors import DraftworthError
from draftworth.planning.resolved import ResolvedNeuron, load_neuron

# At most so many a call.
_DELETE_BATCH = 1000


def is_asset_bucket(name: str, region: str) -> bool:
    """Whether a bucket's name is what `cdk bootstrap` gives it, with whatever qualifier."""
    return re.fullmatch(rf"cdk-[\w-]{{1,10}}-assets-\d{{12}}-{re.escape(region)}", name) is not None


def stored_versions(s3: Any, bucket: str, folder: str) -> Iterator[Mapping[str, Any]]:
    """Versions and delete markers below a folder, as S3 lists them."""
    found = "[Versions, DeleteMarkers][]"
    yield from listed(s3, "list_object_versions", found, Bucket=bucket, Prefix=folder)


def delete_versions(s3: Any, bucket: str, versions: Sequence[Mapping[str, Any]]) -> None:
    """Delete these and nothing else.

    Raises DraftworthError where S3 answers, and did not delete a version.
    """
    names = [{"Key": found["Key"], "VersionId": found["VersionId"]} for found in versions]
    for start in range(0, len(names), _DELETE_BATCH):
        batch = names[start : start + _DELETE_BATCH]
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        if errors := answer.get("Errors"):
            first = errors[0]
            raise DraftworthError(
                f"s3://{bucket}/{first['Key']}, version {first.get('VersionId')}: not deleted: "
                f"{first['Code']}: {first['Message']}"
            )


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
