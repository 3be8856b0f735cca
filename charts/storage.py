"""Volumes: checkpoints and compiled artifacts, read from S3 by the pods that serve them.

The driver mounts with the serving pods' own role (`authenticationSource: pod`), so it needs no
rights of its own. There is no local cache: a start reads each checkpoint once, from end to end, and
a cache would write every byte to the disk on its way.
"""

from __future__ import annotations

from dataclasses import dataclass

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts.bindings import Bindings
from charts.names import NAMESPACE, content_name, experiment_labels
from draftworth.experiment.naming import dns_label
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron

# Both API objects must state a size; the driver ignores it.
IGNORED_CAPACITY = "1Gi"


@dataclass(frozen=True, kw_only=True)
class BucketVolume:
    """A bucket, or a part of it, as a read-only volume."""

    role: str
    bucket: str
    region: str
    prefix: str | None

    @property
    def mount_options(self) -> list[str]:
        """Options of Mountpoint for Amazon S3. The driver's mount belongs to another user than the
        serving process, hence `allow-other`."""
        options = ["read-only", "allow-other", f"region {self.region}"]
        return [*options, f"prefix {self.prefix}/"] if self.prefix else options

    def name(self, experiment: ResolvedNeuron) -> str:
        """Of the PersistentVolume, its claim and its handle.

        Carries the experiment, because PersistentVolumes have no namespace, and a content hash,
        because neither object can be changed in place.
        """
        content = {"bucket": self.bucket, "options": self.mount_options}
        return content_name(f"draftworth-{dns_label(experiment.name)}-{self.role}", content)


def target_volume(experiment: ResolvedNeuron, bindings: Bindings) -> BucketVolume:
    """The target model's checkpoint, the same volume for every variant."""
    return _checkpoint("target", experiment.spec.target.storage_prefix, bindings)


def draft_volume(variant: NeuronVariant, bindings: Bindings) -> BucketVolume | None:
    """The checkpoint of a variant's draft; None for the baseline."""
    draft = variant.checkpoints.get("draft")
    return _checkpoint("draft", draft.storage_prefix, bindings) if draft else None


def artifacts_volume(bindings: Bindings) -> BucketVolume:
    """Compiled graphs, a folder a key: the whole bucket, so that one volume serves all variants."""
    return BucketVolume(
        role="artifacts", bucket=bindings.artifacts_bucket, region=bindings.region, prefix=None
    )


def _checkpoint(role: str, prefix: str, bindings: Bindings) -> BucketVolume:
    return BucketVolume(
        role=role, bucket=bindings.checkpoints_bucket, region=bindings.region, prefix=prefix
    )


class StorageChart(cdk8s.Chart):
    """PersistentVolumes and their claims. Variants with the same draft share its volume."""

    def __init__(
        self, scope: Construct, id_: str, *, experiment: ResolvedNeuron, bindings: Bindings
    ) -> None:
        super().__init__(
            scope, id_, disable_resource_name_hashes=True, labels=experiment_labels(experiment)
        )
        volumes = [
            target_volume(experiment, bindings),
            *(draft_volume(variant, bindings) for variant in experiment.variants),
            artifacts_volume(bindings),
        ]
        for volume in dict.fromkeys(v for v in volumes if v is not None):
            self._volume(volume, volume.name(experiment))
            self._claim(volume.name(experiment))

    def _volume(self, volume: BucketVolume, name: str) -> None:
        k8s.KubePersistentVolume(
            self,
            f"volume-{name}",
            metadata=k8s.ObjectMeta(name=name),
            spec=k8s.PersistentVolumeSpec(
                capacity={"storage": k8s.Quantity.from_string(IGNORED_CAPACITY)},
                access_modes=["ReadOnlyMany"],
                # The bucket is not the volume's to delete.
                persistent_volume_reclaim_policy="Retain",
                storage_class_name="",
                claim_ref=k8s.ObjectReference(name=name, namespace=NAMESPACE),
                mount_options=volume.mount_options,
                csi=k8s.CsiPersistentVolumeSource(
                    driver="s3.csi.aws.com",
                    volume_handle=name,
                    volume_attributes={
                        "bucketName": volume.bucket,
                        "authenticationSource": "pod",
                    },
                ),
            ),
        )

    def _claim(self, name: str) -> None:
        size = {"storage": k8s.Quantity.from_string(IGNORED_CAPACITY)}
        k8s.KubePersistentVolumeClaim(
            self,
            f"claim-{name}",
            metadata=k8s.ObjectMeta(name=name, namespace=NAMESPACE),
            spec=k8s.PersistentVolumeClaimSpec(
                access_modes=["ReadOnlyMany"],
                storage_class_name="",
                volume_name=name,
                resources=k8s.VolumeResourceRequirements(requests=size),
            ),
        )
