"""Volumes with which pods read checkpoints and compiled graphs from S3.

The S3 CSI driver mounts with the role of the pod (`authenticationSource: pod`). Two variants may
share a volume, but not a mount: each variant has its own service account, and the driver starts one
Mountpoint process per service account (see "Mountpoint Pod Sharing" in its documentation). There is
no local cache: a server reads each checkpoint only once per start, so with a cache the whole
checkpoint would be written to the disk and never read from there.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.bindings import Bindings
from charts.container_parts import amounts
from charts.content_names import content_name
from charts.names import NAMESPACE, experiment_labels
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.serving.server_command import ModelPaths

ARTIFACTS_PATH = "/artifacts"
# {role of a model (target or draft): where pods mount its checkpoint}.
MODEL_PATHS: Mapping[str, str] = asdict(ModelPaths())
READ_ONLY = "ReadOnlyMany"
# Kubernetes requires a size in volume and claim; the driver ignores it.
_ANY_SIZE = {"storage": "1Gi"}
# The name of the storage class is the empty text. If a claim had no such field, Kubernetes would
# take the default class and make a new volume of it.
_NO_CLASS = ""


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

    def in_pod(self) -> k8s.Volume:
        source = k8s.PersistentVolumeClaimVolumeSource(claim_name=self.name, read_only=True)
        return k8s.Volume(name=self.role, persistent_volume_claim=source)

    def mount(self) -> k8s.VolumeMount:
        return k8s.VolumeMount(name=self.role, mount_path=self.path, read_only=True)


def server_volumes(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> list[BucketVolume]:
    """Return a server's volumes: the variant's checkpoints, and the whole artifacts bucket."""
    checkpoints = [
        _checkpoint_volume(experiment, role, model, bindings)
        for role, model in variant.checkpoints.items()
    ]
    return [*checkpoints, artifacts_volume(experiment, bindings)]


def target_volume(experiment: ResolvedNeuron, bindings: Bindings) -> BucketVolume:
    """Return the volume with the target model, which all variants share."""
    return _checkpoint_volume(experiment, "target", experiment.spec.target, bindings)


def draft_volume(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> BucketVolume | None:
    """Return the volume with a variant's draft model; None if it has no separate draft model."""
    draft = variant.checkpoints.get("draft")
    return _checkpoint_volume(experiment, "draft", draft, bindings) if draft else None


def artifacts_volume(experiment: ResolvedNeuron, bindings: Bindings) -> BucketVolume:
    """Return the volume with the compiled graphs of all variants."""
    return _volume(experiment, "artifacts", ARTIFACTS_PATH, bindings.artifacts_bucket)


def _checkpoint_volume(
    experiment: ResolvedNeuron, role: str, model: HubModel, bindings: Bindings
) -> BucketVolume:
    bucket, prefix = bindings.checkpoints_bucket, f"prefix {model.storage_prefix}/"
    return _volume(experiment, role, MODEL_PATHS[role], bucket, prefix)


def _volume(
    experiment: ResolvedNeuron, role: str, path: str, bucket: str, *prefix: str
) -> BucketVolume:
    # `allow-other` is needed because another user than the server's owns the mount. The network's
    # throughput is given because Mountpoint would assume 10 Gbit/s: if the pod's own credentials
    # are used, the driver blocks Mountpoint's access to the instance metadata service, from which
    # it would read the throughput. A CPU node that mounts the volume has a slower network; that
    # does no harm, as the number only limits concurrent requests.
    speed = f"maximum-throughput-gbps {experiment.spec.accelerator.s3_gbit_per_s}"
    region = f"region {experiment.spec.aws.region}"
    options = ("read-only", "allow-other", region, speed, *prefix)
    name = content_name(f"{experiment.names.prefix}-{role}", {"bucket": bucket, "options": options})
    return BucketVolume(role=role, path=path, bucket=bucket, options=options, name=name)


class StorageChart(cdk8s.Chart):
    """The volumes of all servers; variants with the same draft model share its volume."""

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: Bindings
    ) -> None:
        super().__init__(scope, id_, labels=experiment_labels(experiment.name))
        volumes = (server_volumes(experiment, of, bindings) for of in experiment.variants)
        for volume in dict.fromkeys(chain.from_iterable(volumes)):
            VolumeAndClaim(self, volume.name, volume=volume, namespace=NAMESPACE)


class VolumeAndClaim(Construct):
    """A PersistentVolume for a `BucketVolume`, and the only claim that can be bound to it."""

    def __init__(self, scope: Construct, id_: str, *, volume: BucketVolume, namespace: str) -> None:
        super().__init__(scope, id_)
        k8s.KubePersistentVolume(
            self,
            "Volume",
            metadata=k8s.ObjectMeta(name=volume.name),
            spec=_volume_spec(volume, namespace),
        )
        k8s.KubePersistentVolumeClaim(
            self,
            "Claim",
            metadata=k8s.ObjectMeta(name=volume.name, namespace=namespace),
            spec=k8s.PersistentVolumeClaimSpec(
                access_modes=[READ_ONLY],
                storage_class_name=_NO_CLASS,
                volume_name=volume.name,
                resources=k8s.VolumeResourceRequirements(requests=amounts(_ANY_SIZE)),
            ),
        )


def _volume_spec(volume: BucketVolume, namespace: str) -> k8s.PersistentVolumeSpec:
    return k8s.PersistentVolumeSpec(
        capacity=amounts(_ANY_SIZE),
        access_modes=[READ_ONLY],
        # Deleting the volume must not delete the bucket.
        persistent_volume_reclaim_policy="Retain",
        storage_class_name=_NO_CLASS,
        claim_ref=k8s.ObjectReference(name=volume.name, namespace=namespace),
        mount_options=list(volume.options),
        csi=k8s.CsiPersistentVolumeSource(
            driver="s3.csi.aws.com",
            volume_handle=volume.name,
            volume_attributes={
                "bucketName": volume.bucket,
                "authenticationSource": "pod",
            },
        ),
    )
