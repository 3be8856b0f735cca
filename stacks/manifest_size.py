"""Whether CloudFormation can hand a chart's objects to the function that applies them.

At an update the function's event carries the objects twice, as they were and as they are to be,
each time as JSON text inside JSON, with every quotation mark and line break escaped once more.
CloudFormation invokes the function asynchronously, so Lambda's limit for such events holds: 1 MB
(AWS Lambda API reference, Invoke, 2026), and 256 KiB before October 2025.
"""

import json
from collections.abc import Sequence
from typing import Any

from aws_cdk import Annotations
from aws_cdk import aws_eks_v2 as eks

MAX_EVENT_BYTES = 1_000_000
EARLIER_MAX_EVENT_BYTES = 256 * 1024
# Addresses and ids around the objects, and names of buckets and images, which are longer than the
# CDK tokens in place of them.
AROUND_ALL_BYTES = 8 * 1024
# The label by which CDK prunes, twice, its quotation marks escaped.
AROUND_AN_OBJECT_BYTES = 2 * 100


def update_event_bytes(objects: Sequence[Any]) -> int:
    """Return the bytes of the event of an update that leaves the size of these objects as it is."""
    text = json.dumps(objects, separators=(",", ":"))
    around = AROUND_ALL_BYTES + AROUND_AN_OBJECT_BYTES * len(objects)
    return 2 * len(json.dumps(text)) + around


def judge_size(manifest: eks.KubernetesManifest, objects: Sequence[Any]) -> None:
    """Report an update that is too large as an error of synthesis: it would fail during a deploy.

    Above Lambda's earlier limit it is a warning: nobody has tried whether CloudFormation's events
    may have the size of the new limit.
    """
    size = update_event_bytes(objects)
    found = (
        f"{len(objects)} objects: CloudFormation's event of an update would have {size:,} bytes; "
        f"Lambda takes {MAX_EVENT_BYTES:,}, before October 2025 {EARLIER_MAX_EVENT_BYTES:,}"
    )
    if size > MAX_EVENT_BYTES:
        Annotations.of(manifest).add_error(f"{found}. Next: fewer variants, or two experiments")
    elif size > EARLIER_MAX_EVENT_BYTES:
        Annotations.of(manifest).add_warning_v2(
            "draftworth:manifestSize",
            f"{found}. If an update fails with RequestEntityTooLarge: fewer variants, or destroy "
            "and deploy anew, which sends half as much",
        )
