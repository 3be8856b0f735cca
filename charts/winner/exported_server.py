"""The winner's server, before it is written as a Deployment, for KServe and for a Helm chart."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cdk8s_plus_35 import k8s

from charts.bucket_volumes import BucketVolume
from charts.device_claims import ClaimTemplate
from charts.manifest_files import Object
from draftworth.serving.server_command import Flags


@dataclass(frozen=True, kw_only=True)
class Export:
    """What all exported files about the winner's server share.

    name: of the server's objects and of its service account. selector: the labels of its pods.
    pod: the pod's spec, with one container, the server's.
    volumes: the buckets that the pod mounts; none on a CPU.
    claim_template: the template of the pod's device claim; None on a CPU. Files for the Helm chart
        do not use it, because that chart does not support device claims.
    devices: how many Neuron devices the pod claims; 0 on a CPU.
    flags: the server's flags as they were measured.
    model: the model's name in requests and in vLLM's metrics.
    remarks: sentences that a user should read before applying a file.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: k8s.PodSpec
    volumes: tuple[BucketVolume, ...]
    claim_template: ClaimTemplate | None
    devices: int
    flags: Flags
    model: str
    remarks: tuple[str, ...]

    @cached_property
    def pod_data(self) -> Object:
        """The pod's spec as plain data, for objects that have no typed class."""
        manifest: Object = k8s.KubePod.manifest(spec=self.pod)
        return dict(manifest["spec"])

    @property
    def server_data(self) -> Object:
        """The server's container as plain data."""
        (container,) = self.pod_data["containers"]
        return dict(container)

    def metadata(self, annotations: Mapping[str, str] | None = None) -> Object:
        metadata: Object = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": dict(self.labels),
        }
        return metadata | ({"annotations": dict(annotations)} if annotations else {})
