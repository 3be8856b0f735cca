"""Volumes with which pods read checkpoints and compiled graphs from S3.

The S3 CSI driver mounts with the role of the pod (`authenticationSource: pod`). Two variants may
share a volume, but not a mount: the driver starts a Mountpoint for each service account (see
"Mountpoint Pod Sharing" in its documentation). There is no local cache: a server reads each
checkpoint only once per start, so a cache would only write all of it to the disk.
"""

from dataclasses import asdict, dataclass

import cdk8s
from constructs import Construct

from charts import k8s
from charts.names import NAMESPACE, Bindings, content_name, experiment_labels
from charts.pods import gib, metadata
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.serving.command import ModelPaths

# Kubernetes requires a size in volume and claim; the driver ignores it.
_IGNORED_SIZE = {"storage": gib(1)}
ARTIFACTS_PATH = "/artifacts"


@dataclass(frozen=True, kw_only=True)
class BucketVolume:
    """A bucket, or a prefix of it, as a read-only volume; `role`: target, draft or artifacts."""

    role: str
    bucket: str
    prefix: str | None

    def mount_options(self, experiment: ResolvedNeuron) -> list[str]:
        """Return options of Mountpoint for Amazon S3.

        `allow-other` is needed because another user than the server's owns the mount. The network's
        throughput is given because Mountpoint would assume 10 Gbit/s: with a pod's own credentials
        the driver blocks its access to the metadata service. A CPU node that mounts the volume has
        a slower network; that does no harm, as the number only limits concurrent requests.
        """
        options = ["read-only", "allow-other", f"region {experiment.spec.aws.region}"]
        options.append(f"maximum-throughput-gbps {experiment.spec.accelerator.s3_gbit_per_s}")
        return [*options, f"prefix {self.prefix}/"] if self.prefix else options

    def name(self, experiment: ResolvedNeuron) -> str:
        """Return the name of the PersistentVolume, of its claim and its volume handle.

        The name contains the experiment's name, because PersistentVolumes have no namespace, and a
        content hash, because neither PersistentVolume nor claim can be changed in place.
        """
        content = {"bucket": self.bucket, "options": self.mount_options(experiment)}
        return content_name(f"{experiment.names.prefix}-{self.role}", content)


def bucket_volumes(variant: NeuronVariant, bindings: Bindings) -> list[BucketVolume]:
    """Return a server's volumes: the variant's checkpoints, and the whole artifacts bucket."""
    checkpoints = [
        BucketVolume(role=role, bucket=bindings.checkpoints_bucket, prefix=model.storage_prefix)
        for role, model in variant.checkpoints.items()
    ]
    graphs = BucketVolume(role="artifacts", bucket=bindings.artifacts_bucket, prefix=None)
    return [*checkpoints, graphs]


def pod_volumes(
    experiment: ResolvedNeuron, variant: NeuronVariant, bindings: Bindings
) -> list[k8s.Volume]:
    """Return the volumes of a variant's pods."""
    return [
        k8s.Volume(
            name=volume.role,
            persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(
                claim_name=volume.name(experiment), read_only=True
            ),
        )
        for volume in bucket_volumes(variant, bindings)
    ]


def pod_mounts(variant: NeuronVariant, bindings: Bindings) -> list[k8s.VolumeMount]:
    """Return mounts of `pod_volumes`, at the same paths in all pods: compiled graphs store them."""
    paths = {**asdict(ModelPaths()), "artifacts": ARTIFACTS_PATH}
    return [
        k8s.VolumeMount(name=v.role, mount_path=paths[v.role], read_only=True)
        for v in bucket_volumes(variant, bindings)
    ]


def storage_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: Bindings
) -> cdk8s.Chart:
    """Make PersistentVolumes and their claims; variants with the same draft share its volume."""
    chart = cdk8s.Chart(scope, "storage", labels=experiment_labels(experiment))
    volumes = [v for variant in experiment.variants for v in bucket_volumes(variant, bindings)]
    for volume in dict.fromkeys(volumes):
        name = volume.name(experiment)
        k8s.KubePersistentVolume(
            chart,
            f"volume-{name}",
            metadata=k8s.ObjectMeta(name=name),
            spec=volume_spec(experiment, volume, name, namespace=NAMESPACE),
        )
        k8s.KubePersistentVolumeClaim(
            chart, f"claim-{name}", metadata=metadata(name), spec=claim_spec(name)
        )
    return chart


def volume_spec(
    experiment: ResolvedNeuron, volume: BucketVolume, name: str, *, namespace: str
) -> k8s.PersistentVolumeSpec:
    """Return the PersistentVolume's spec; it can be bound only to the claim `namespace`/`name`."""
    return k8s.PersistentVolumeSpec(
        capacity=_IGNORED_SIZE,
        access_modes=["ReadOnlyMany"],
        # The bucket must not be deleted with its volume.
        persistent_volume_reclaim_policy="Retain",
        storage_class_name="",
        claim_ref=k8s.ObjectReference(name=name, namespace=namespace),
        mount_options=volume.mount_options(experiment),
        csi=k8s.CsiPersistentVolumeSource(
            driver="s3.csi.aws.com",
            volume_handle=name,
            volume_attributes={
                "bucketName": volume.bucket,
                "authenticationSource": "pod",
            },
        ),
    )


def claim_spec(volume_name: str) -> k8s.PersistentVolumeClaimSpec:
    """Return the spec of the claim that is bound to the volume `volume_name`."""
    return k8s.PersistentVolumeClaimSpec(
        access_modes=["ReadOnlyMany"],
        storage_class_name="",
        volume_name=volume_name,
        resources=k8s.VolumeResourceRequirements(requests=_IGNORED_SIZE),
    )
