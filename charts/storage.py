"""Volumes: checkpoints and compiled artifacts, read from S3 by the pods that serve them.

The driver mounts with the serving pods' own role (`authenticationSource: pod`). Two servers share a
volume and not its mount: the driver starts one Mountpoint for each service account ("Mountpoint Pod
Sharing" of its documentation). A start reads each checkpoint once, so a local cache would only
write every byte to the disk.
"""

from dataclasses import asdict, dataclass

import cdk8s
from constructs import Construct

from charts import k8s
from charts.names import NAMESPACE, Bindings, content_name, experiment_labels
from charts.pods import metadata
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.serving.command import ModelPaths

# Both API objects must state a size; the driver ignores it.
IGNORED_CAPACITY = "1Gi"
ARTIFACTS_PATH = "/artifacts"


@dataclass(frozen=True, kw_only=True)
class BucketVolume:
    """A bucket, or a part of it, as a read-only volume; `role`: target, draft or artifacts."""

    role: str
    bucket: str
    region: str
    prefix: str | None

    def mount_options(self, experiment: ResolvedNeuron) -> list[str]:
        """Return options of Mountpoint for Amazon S3.

        The driver's mount belongs to another user than the serving process, hence `allow-other`.
        With a pod's own credentials the driver keeps Mountpoint from the metadata service, and
        without it Mountpoint assumes a network of 10 Gbit/s, so the throughput is given. A CPU node
        that mounts the same volume has less; the figure only limits how many requests are under
        way.
        """
        gbit = experiment.spec.accelerator.s3_gbit_per_s
        options = ["read-only", "allow-other", f"region {self.region}"]
        options.append(f"maximum-throughput-gbps {gbit}")
        return [*options, f"prefix {self.prefix}/"] if self.prefix else options

    def name(self, experiment: ResolvedNeuron) -> str:
        """Return the name of the PersistentVolume, its claim and its handle.

        It has the experiment, because PersistentVolumes have no namespace, and a content hash,
        because neither object can be changed in place.
        """
        content = {"bucket": self.bucket, "options": self.mount_options(experiment)}
        return content_name(f"{experiment.names.prefix}-{self.role}", content)


def bucket_volumes(variant: NeuronVariant, bindings: Bindings) -> list[BucketVolume]:
    """Return a server's volumes: the variant's checkpoints, and every variant's compiled graphs."""
    parts: dict[str, tuple[str, str | None]] = {
        role: (bindings.checkpoints_bucket, model.storage_prefix)
        for role, model in variant.checkpoints.items()
    }
    parts["artifacts"] = (bindings.artifacts_bucket, None)
    return [
        BucketVolume(role=role, bucket=bucket, region=bindings.region, prefix=prefix)
        for role, (bucket, prefix) in parts.items()
    ]


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
    """Return the volumes' paths. They are in compiled graphs, so they are the same in every pod."""
    paths = {**asdict(ModelPaths()), "artifacts": ARTIFACTS_PATH}
    return [
        k8s.VolumeMount(name=v.role, mount_path=paths[v.role], read_only=True)
        for v in bucket_volumes(variant, bindings)
    ]


def storage_chart(
    scope: Construct, *, experiment: ResolvedNeuron, bindings: Bindings
) -> cdk8s.Chart:
    """Make PersistentVolumes and their claims. Variants with the same draft share its volume."""
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
    """Return the spec of this PersistentVolume, for the claim of the same name in the namespace."""
    return k8s.PersistentVolumeSpec(
        capacity={"storage": k8s.Quantity.from_string(IGNORED_CAPACITY)},
        access_modes=["ReadOnlyMany"],
        # No bucket is deleted with its volume.
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
    """Return the spec of the claim of one volume."""
    size = {"storage": k8s.Quantity.from_string(IGNORED_CAPACITY)}
    return k8s.PersistentVolumeClaimSpec(
        access_modes=["ReadOnlyMany"],
        storage_class_name="",
        volume_name=volume_name,
        resources=k8s.VolumeResourceRequirements(requests=size),
    )
