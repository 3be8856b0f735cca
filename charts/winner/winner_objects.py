"""The winner's server as Kubernetes objects: those that all forms need, and the Deployment.

The forms in which it is exported: a Deployment, KServe's InferenceService, values of a Helm chart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import cdk8s
from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.bindings import Bindings
from charts.bucket_volumes import BucketVolume, VolumeAndClaim, server_volumes
from charts.device_claims import ClaimTemplate, DeviceClaimTemplate, claim_template
from charts.foundation import service_account
from charts.manifest_files import Object, placeholder
from charts.winner import winner_pod
from charts.winner.exported_server import Export
from charts.winner.measured_winner import MeasuredWinner
from charts.winner.winner_alarms import watched, why_no_alarm
from charts.winner.winner_annotations import annotations_of
from draftworth.planning import resolved
from draftworth.serving.server_command import SERVING_PORT, served_model_name

# The buckets that a server reads: {field of Bindings: the environment variable that stands for the
# bucket's name in the files}.
BUCKETS: Mapping[str, str] = {
    "checkpoints_bucket": "CHECKPOINTS_BUCKET",
    "artifacts_bucket": "ARTIFACTS_BUCKET",
}


def export_of(
    experiment: resolved.ResolvedExperiment,
    measured: MeasuredWinner,
    *,
    namespace: str,
    image: str,
    bucket_names: Mapping[str, str],
) -> Export:
    """Return the content that all exported files share.

    image: the server's image. bucket_names: {field of `Bindings`: the bucket's name}; the files
        have a placeholder for a bucket without a name.
    """
    variant = measured.variant
    claim: ClaimTemplate | None = None
    volumes: tuple[BucketVolume, ...] = ()
    if isinstance(experiment, resolved.ResolvedNeuron) and isinstance(
        variant, resolved.NeuronVariant
    ):
        volumes = _volumes(experiment, variant, namespace, bucket_names)
        claim = claim_template(experiment)
        pod = winner_pod.neuron_pod(experiment, variant, claim_template=claim.name, volumes=volumes)
        devices, command = experiment.spec.serving.slot_devices, variant.command
    else:
        assert isinstance(experiment, resolved.ResolvedLocal)  # noqa: S101 (the only other kind)
        command = winner_pod.local_command(experiment, variant)
        pod, devices = winner_pod.local_pod(variant, command, image), 0
    name = names.service_name(variant.name)
    return Export(
        name=name,
        namespace=namespace,
        labels=names.server_labels(name, variant.name, experiment.name),
        selector=names.selector_labels(name),
        annotations=annotations_of(measured, experiment, image),
        pod=pod,
        volumes=volumes,
        claim_template=claim,
        devices=devices,
        flags=command.flags,
        model=served_model_name(experiment.spec),
        remarks=tuple(_remarks(measured)),
    )


def _volumes(
    experiment: resolved.ResolvedNeuron,
    variant: resolved.NeuronVariant,
    namespace: str,
    bucket_names: Mapping[str, str],
) -> tuple[BucketVolume, ...]:
    """Return the volumes of the winner's server, with other names than in the experiment.

    PersistentVolumes have no namespace, and those of the experiment may be in the same cluster.
    bucket_names: {field of `Bindings`: the bucket's name}; a bucket without a name gets a
        placeholder.
    """
    prefix = f"{namespace}-{names.service_name(variant.name)}"
    volumes = server_volumes(experiment, variant, _bindings(experiment, bucket_names))
    return tuple(replace(volume, name=f"{prefix}-{volume.name}") for volume in volumes)


def _bindings(experiment: resolved.ResolvedNeuron, bucket_names: Mapping[str, str]) -> Bindings:
    placeholders = {field: placeholder(variable) for field, variable in BUCKETS.items()}
    return Bindings(
        region=experiment.spec.aws.region,
        **{**placeholders, **bucket_names},
        results_bucket="",
        run_spec_url="",
        run_spec_sha256="",
        llmperf_image="",
    )


def _remarks(measured: MeasuredWinner) -> Iterator[str]:
    winner = measured.winner
    if winner.takes_up_to:
        loads = ", ".join(load.label for load in winner.takes_up_to)
        yield f"It is shown to take more requests within the limits: up to {loads}."
    elif not winner.speculates:
        yield "No variant is shown to be cheaper: the winner is the baseline, without speculation."
    elif len(winner.cheaper_at) < len(winner.decisive):
        loads = ", ".join(load.label for load in winner.cheaper_at)
        yield f"It is shown to be cheaper at {loads} only: keep the load there."
    if winner.speculates and watched(measured) is None:
        yield why_no_alarm(measured)


class CommonChart(cdk8s.Chart):
    """What all exported forms of the winner's server need: service account, volumes and claims."""

    def __init__(self, scope: Construct, id_: str, *, export: Export) -> None:
        super().__init__(scope, id_)
        service_account(self, export.name, namespace=export.namespace)
        for volume in export.volumes:
            VolumeAndClaim(self, volume.name, volume=volume, namespace=export.namespace)


class ClaimChart(cdk8s.Chart):
    """The template of the claim by which the winner's pod gets its Neuron devices.

    The chart is empty if the pod is for a CPU.
    """

    def __init__(self, scope: Construct, id_: str, *, export: Export) -> None:
        super().__init__(scope, id_)
        if template := export.claim_template:
            DeviceClaimTemplate(self, template.name, template=template, namespace=export.namespace)


class DeploymentChart(ClaimChart):
    """The winner as a Deployment behind a Service, with the template of its device claim."""

    def __init__(self, scope: Construct, id_: str, *, export: Export) -> None:
        super().__init__(scope, id_, export=export)
        k8s.KubeService(
            self,
            "Service",
            metadata=k8s.ObjectMeta(**export.metadata()),
            spec=_service_spec(export),
        )
        pod = k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=export.labels), spec=export.pod)
        k8s.KubeDeployment(
            self,
            "Deployment",
            metadata=k8s.ObjectMeta(**export.metadata(export.annotations)),
            spec=k8s.DeploymentSpec(
                replicas=1,
                # A rolling update would need devices for a second pod.
                strategy=k8s.DeploymentStrategy(type="Recreate"),
                selector=k8s.LabelSelector(match_labels=export.selector),
                template=pod,
            ),
        )


def _service_spec(export: Export) -> k8s.ServiceSpec:
    port = k8s.ServicePort(
        name="http",
        port=SERVING_PORT,
        target_port=k8s.IntOrString.from_string("http"),
        protocol="TCP",
    )
    return k8s.ServiceSpec(type="ClusterIP", selector=export.selector, ports=[port])


def objects_of(chart: type[CommonChart | ClaimChart], export: Export) -> list[Object]:
    """Return the objects of one of the charts of this module, as plain data."""
    objects: list[Object] = chart(cdk8s.App(), "winner", export=export).to_json()
    return objects
