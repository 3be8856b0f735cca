"""A chart's objects in the cluster: a deploy deletes those that the chart no longer has.

See docs/decisions/0010-what-a-change-leaves.md.

At an update the function's event carries the objects twice, as they were and as they are to be,
each time as JSON text inside JSON, with every quotation mark and line break escaped once more.
CloudFormation invokes the function asynchronously, so Lambda's limit for such events holds: 1 MB
(AWS Lambda API reference, Invoke, 2026), and 256 KiB before October 2025.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import cdk8s
from aws_cdk import Annotations
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IConstruct

# Kinds that `kubectl apply --prune` deletes when a manifest no longer has them: those of kubectl's
# default list (k8s.io/kubectl/pkg/util/prune) that the charts make.
PRUNED_KINDS = frozenset(
    {
        "ConfigMap",
        "Deployment",
        "Job",
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Service",
    }
)

Object = Mapping[str, Any]


def apply_chart(
    scope: Construct, chart: cdk8s.Chart, *, cluster: eks.ICluster, after: Sequence[IConstruct]
) -> list[IConstruct]:
    """Apply a chart's objects, and return what the next chart has to wait for.

    Kinds that are pruned share a resource of the template. Any other object is a resource of its
    own: CloudFormation deletes it when the template no longer has it. The group of the chart's
    first object, a namespace or an object that its pods need, comes first.
    """
    objects = chart.to_json()
    first = _is_pruned(objects[0])
    previous = list(after)
    for pruned in (first, not first):
        group = [item for item in objects if _is_pruned(item) == pruned]
        if pruned:
            made = [_together(scope, chart, cluster, group)] if group else []
        else:
            made = [_alone(scope, cluster, item) for item in group]
        for manifest in made:
            manifest.node.add_dependency(*previous)
        previous = list(made) or previous
    return previous


def _is_pruned(item: Object) -> bool:
    return item["kind"] in PRUNED_KINDS


def _together(
    scope: Construct, chart: cdk8s.Chart, cluster: eks.ICluster, objects: Sequence[Object]
) -> eks.KubernetesManifest:
    manifest = eks.KubernetesManifest(
        scope, f"Chart-{chart.node.id}", cluster=cluster, manifest=list(objects), prune=True
    )
    judge_size(manifest, objects)
    return manifest


def _alone(scope: Construct, cluster: eks.ICluster, item: Object) -> eks.KubernetesManifest:
    return eks.KubernetesManifest(
        scope,
        f"{item['kind']}-{item['metadata']['name']}",
        cluster=cluster,
        manifest=[dict(item)],
        prune=False,
        # It may be there already: an earlier version applied it with its chart.
        overwrite=True,
    )


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
