"""Applies a chart's objects to the cluster; a deploy deletes objects that the chart no longer has.

See docs/decisions/0010-what-a-change-leaves.md.

CDK's kubectl function applies the objects. At an update its event holds the old and the new
objects, both as JSON text inside JSON, where every quotation mark and line break is escaped again.
The event is asynchronous, and Lambda limits such events to 1 MB (AWS Lambda API reference, Invoke,
2026), before October 2025 to 256 KiB.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import cdk8s
from aws_cdk import Annotations
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IConstruct

from draftworth.experiment.aws import KUBECTL_AT_ONCE

# Kinds whose objects `kubectl apply --prune` deletes when a manifest no longer has them: the kinds
# in kubectl's default list (k8s.io/kubectl/pkg/util/prune) that the charts use.
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

# The objects of a new resource may exist already: a deploy failed after a part of them, and is
# repeated; or an earlier version of draftworth applied them with other objects. CDK's function then
# updates them. Without this it runs `kubectl create`, which fails with AlreadyExists.
OVERWRITE = True

Object = Mapping[str, Any]


def apply_charts(
    scope: Construct,
    charts: Sequence[cdk8s.Chart],
    *,
    cluster: eks.ICluster,
    after: Sequence[IConstruct],
) -> list[IConstruct]:
    """Apply charts that do not need each other; return what the next charts must depend on.

    after: the constructs that are created before.

    All objects of a chart whose kind is in `PRUNED_KINDS` are applied by one CloudFormation
    resource, since kubectl itself deletes those that a later version of the chart lacks. Each other
    object has a resource of its own, which CloudFormation deletes when the template lacks it. A
    chart lists an object before those that need it. So if the first object is of `PRUNED_KINDS`,
    such a resource is applied before the others, else after them. Of each kind at most
    `KUBECTL_AT_ONCE` are applied at a time: each waits for the one that many places before it.
    """
    first = _is_pruned(charts[0].to_json()[0])
    previous = list(after)
    for pruned in (first, not first):
        made = [m for chart in charts for m in _manifests(scope, chart, cluster, pruned=pruned)]
        for number, manifest in enumerate(made):
            before = made[number - KUBECTL_AT_ONCE : number - KUBECTL_AT_ONCE + 1]
            manifest.node.add_dependency(*(before if number >= KUBECTL_AT_ONCE else previous))
        previous = [*made[-KUBECTL_AT_ONCE:]] or previous
    return previous


def _manifests(
    scope: Construct, chart: cdk8s.Chart, cluster: eks.ICluster, *, pruned: bool
) -> list[eks.KubernetesManifest]:
    objects = [item for item in chart.to_json() if _is_pruned(item) == pruned]
    if not pruned:
        return [_alone(scope, cluster, item) for item in objects]
    return [_together(scope, chart, cluster, objects)] if objects else []


def _is_pruned(item: Object) -> bool:
    return item["kind"] in PRUNED_KINDS


def _together(
    scope: Construct, chart: cdk8s.Chart, cluster: eks.ICluster, objects: Sequence[Object]
) -> eks.KubernetesManifest:
    manifest = eks.KubernetesManifest(
        scope,
        f"Chart-{chart.node.id}",
        cluster=cluster,
        manifest=list(objects),
        prune=True,
        overwrite=OVERWRITE,
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
        overwrite=OVERWRITE,
    )


MAX_EVENT_BYTES = 1_000_000
EARLIER_MAX_EVENT_BYTES = 256 * 1024
# Allowance for the event's other fields (addresses, ids), and for names of buckets and images: the
# estimate counts CDK's placeholders (tokens) for these names, which are shorter.
AROUND_ALL_BYTES = 8 * 1024
# Allowance for the label that CDK adds to each object for `kubectl apply --prune`: 100 bytes, with
# its escaped quotes, in the old and again in the new object.
AROUND_EACH_OBJECT_BYTES = 2 * 100


def update_event_bytes(objects: Sequence[Any]) -> int:
    """Estimate the size of the event with which CDK's kubectl function is called at an update.

    The event holds the old and the new objects. The old ones are assumed to be as large as
    `objects`, the new ones.
    """
    text = json.dumps(objects, separators=(",", ":"))
    around = AROUND_ALL_BYTES + AROUND_EACH_OBJECT_BYTES * len(objects)
    return 2 * len(json.dumps(text)) + around


def judge_size(manifest: eks.KubernetesManifest, objects: Sequence[Any]) -> None:
    """Report at synthesis a manifest whose update would be too large and fail in a deploy.

    Above `MAX_EVENT_BYTES` it is an error. Above `EARLIER_MAX_EVENT_BYTES` it is a warning, because
    it is not tested whether CloudFormation's events may be as large as Lambda's new limit.
    """
    size = update_event_bytes(objects)
    words = (
        f"{len(objects)} objects: CloudFormation's event of an update would have {size:,} bytes; "
        f"Lambda takes {MAX_EVENT_BYTES:,}, before October 2025 {EARLIER_MAX_EVENT_BYTES:,}"
    )
    if size > MAX_EVENT_BYTES:
        Annotations.of(manifest).add_error(f"{words}. Next: fewer variants, or two experiments")
    elif size > EARLIER_MAX_EVENT_BYTES:
        Annotations.of(manifest).add_warning_v2(
            "draftworth:manifestSize",
            f"{words}. If an update fails with RequestEntityTooLarge: fewer variants, or destroy "
            "and deploy anew, which sends half as much",
        )
