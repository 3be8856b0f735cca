"""Volumes with which pods read checkpoints and compiled graphs from S3.

The S3 CSI driver mounts with the role of the pod (`authenticationSource: pod`). Two variants may
share a volume, but not a mount: the driver starts a Mountpoint for each service account (see
"Mountpoint Pod Sharing" in its documentation). There is no local cache: a server reads each
checkpoint only once per start, so a cache would only write all of it to the disk.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import cdk8s
from constructs import Construct

from charts.names import NAMESPACE, Bindings, content_name, experiment_labels
from charts.templates import Object, add_objects, objects_in
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.serving.server_command import ModelPaths

ARTIFACTS_PATH = "/artifacts"


@dataclass(frozen=True, kw_only=True)
class BucketVolume:
    """A bucket, or a prefix of it, as a read-only volume.

    role: target, draft or artifacts.
    path: where pods mount the volume; the same in all pods, because compiled graphs store paths.
    options: mount options for the S3 CSI driver.
    name: the name of the PersistentVolume, of its claim and its volume handle. It contains the
        experiment's name, because PersistentVolumes have no namespace, and a content hash, because
        neither PersistentVolume nor claim can be changed in place.
    """

    role: str
    path: str
    bucket: str
    options: tuple[str, ...]
    name: str


def bucket_volumes(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> list[BucketVolume]:
    """Return a server's volumes: the variant's checkpoints, and the whole artifacts bucket."""
    paths, bucket = asdict(ModelPaths()), bindings.checkpoints_bucket
    checkpoints = [
        _volume(experiment, role, paths[role], bucket, f"prefix {model.storage_prefix}/")
        for role, model in variant.checkpoints.items()
    ]
    graphs = _volume(experiment, "artifacts", ARTIFACTS_PATH, bindings.artifacts_bucket)
    return [*checkpoints, graphs]


def _volume(
    experiment: ResolvedNeuron, role: str, path: str, bucket: str, *prefix: str
) -> BucketVolume:
    # `allow-other` is needed because another user than the server's owns the mount. The network's
    # throughput is given because Mountpoint would assume 10 Gbit/s: with a pod's own credentials
    # the driver blocks its access to the metadata service. A CPU node that mounts the volume has
    # a slower network; that does no harm, as the number only limits concurrent requests.
    speed = f"maximum-throughput-gbps {experiment.spec.accelerator.s3_gbit_per_s}"
    region = f"region {experiment.spec.aws.region}"
    options = ("read-only", "allow-other", region, speed, *prefix)
    name = content_name(f"{experiment.names.prefix}-{role}", {"bucket": bucket, "options": options})
    return BucketVolume(role=role, path=path, bucket=bucket, options=options, name=name)


def storage_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: Bindings
) -> cdk8s.Chart:
    """Make PersistentVolumes and their claims; variants with the same draft share its volume."""
    chart = cdk8s.Chart(scope, "storage", labels=experiment_labels(experiment))
    variants = experiment.variants
    volumes = [v for variant in variants for v in bucket_volumes(experiment, variant, bindings)]
    add_objects(chart, volume_objects(dict.fromkeys(volumes), NAMESPACE))
    return chart


def volume_objects(volumes: Iterable[BucketVolume], namespace: str) -> list[Object]:
    """Return a PersistentVolume for each volume, followed by its claim in `namespace`."""
    values = {"volumes": volumes, "namespace": namespace}
    made: list[Object] = objects_in("charts", "storage.yaml.jinja", **values)
    return made
