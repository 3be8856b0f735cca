"""`draftworth delete-assets` deletes an experiment's uploads in CDK's asset bucket.

`cdk bootstrap` makes the bucket with versioning, and CDK never deletes anything from it. The bucket
holds the templates, function packages and prompts of every deploy. The prompts may be personal, so
`make destroy` ends with this command. Exit code 1: the stack that reads the files still exists, or
a call to AWS failed.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Any

from draftworth.account.clients import Region, client, delete_objects, explained, listed
from draftworth.account.printing import print_lines
from draftworth.errors import DraftworthError
from draftworth.planning.resolved import ResolvedNeuron, load_neuron


def is_asset_bucket(name: str, region: str) -> bool:
    """Return whether `cdk bootstrap` could give a bucket this name, with any qualifier."""
    return re.fullmatch(rf"cdk-[\w-]{{1,10}}-assets-\d{{12}}-{re.escape(region)}", name) is not None


def stored_versions(s3: Any, bucket: str, folder: str) -> Iterator[Mapping[str, Any]]:
    """Yield the versions and delete markers below a folder, as S3 lists them."""
    entries = "[Versions, DeleteMarkers][]"
    yield from listed(s3, "list_object_versions", entries, Bucket=bucket, Prefix=folder)


def run(arguments: argparse.Namespace) -> int:
    """Delete every version of the experiment's uploads, and print how many there were."""
    experiment = load_neuron(arguments.experiment)
    _refuse_while_in_use(experiment)
    region, folder = experiment.spec.aws.region, experiment.names.assets
    here, any_deleted = Region(name=region, clients=client), False
    names = here.list_all("list the buckets", "s3", "list_buckets", "Buckets[].Name")
    for bucket in (name for name in names if is_asset_bucket(name, region)):
        s3 = here.client("s3")
        with explained(f"delete every version below s3://{bucket}/{folder}", region=region):
            stored = list(stored_versions(s3, bucket, folder))
            versions = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in stored]
            delete_objects(s3, bucket, versions)
        if versions:
            print_lines([f"deleted {len(versions)} versions of files in s3://{bucket}/{folder}"])
            any_deleted = True
    if not any_deleted:
        print_lines([f"no file in a folder {folder} of CDK's asset bucket in {region}"])
    return 0


def _refuse_while_in_use(experiment: ResolvedNeuron) -> None:
    """Raise DraftworthError while the stack exists: the measuring Job's pods read the prompts."""
    region, stack = experiment.spec.aws.region, experiment.names.stack
    here, doing = Region(name=region, clients=client), f"look for the stack {stack}"
    missing, arguments = "ValidationError", {"StackName": stack}
    if here.ask(doing, "cloudformation", "describe_stacks", missing, **arguments):
        raise DraftworthError(
            f"the stack {stack} in {region} still exists, and its measuring Job reads what "
            "would be deleted; next: `make destroy`, which ends with this command"
        )
