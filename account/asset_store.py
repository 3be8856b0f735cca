"""What an experiment's deploys uploaded into CDK's asset bucket, in every version.

The bucket is the account's. `cdk bootstrap` makes it versioned, and CDK deletes nothing in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from account.clients import listed
from draftworth.errors import DraftworthError

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
