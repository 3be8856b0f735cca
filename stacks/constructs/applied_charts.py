"""A chart's objects in the cluster: a deploy deletes those that the chart no longer has.

See docs/decisions/0010-what-a-change-leaves.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import cdk8s
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IConstruct

from stacks.manifest_size import judge_size

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
