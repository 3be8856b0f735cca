"""The content that all exported files share, the Deployment, and KServe's InferenceService.

An LLMInferenceService would generate its own vLLM command line instead of the measured one.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from charts import names
from charts.files import placeholder
from charts.storage import volume_objects
from charts.templates import Object, objects_in
from charts.winner import neuron_pod
from charts.winner.alarms import watched, why_no_alarm
from charts.winner.annotations import annotations_of
from charts.winner.measured import Export, MeasuredWinner
from draftworth.planning import resolved
from draftworth.serving.server_command import SERVING_PORT, served_model_name

# The buckets that a server reads: fields of Bindings, and the environment variable that stands for
# each in the files.
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
    given: Mapping[str, str],
) -> Export:
    """Return the content that all exported files share.

    given: names of buckets by field of Bindings; a bucket without a name gets a placeholder.
    """
    variant = measured.variant
    name = names.service_name(variant.name)
    templates: tuple[Object, ...] = ()
    if isinstance(experiment, resolved.ResolvedNeuron) and isinstance(
        variant, resolved.NeuronVariant
    ):
        bindings = _bindings(experiment, given)
        volumes = neuron_pod.volumes_of(experiment, variant, bindings, namespace)
        claim = neuron_pod.named_claim_template(experiment, namespace)
        pod = neuron_pod.neuron_pod(
            experiment,
            variant,
            bindings,
            claim_template=claim["metadata"]["name"],
            volumes=volumes,
        )
        needs = tuple(volume_objects(volumes, namespace))
        templates = (claim,)
        devices, command = experiment.spec.serving.slot_devices, variant.command
    else:
        assert isinstance(experiment, resolved.ResolvedLocal)  # noqa: S101 (the only other kind)
        command = neuron_pod.local_command(experiment, variant)
        pod = neuron_pod.local_pod(variant, command, image, service_account=name)
        needs, devices = (), 0
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
        "automountServiceAccountToken": False,
    }
    return Export(
        name=name,
        namespace=namespace,
        labels={
            "app.kubernetes.io/name": "vllm",
            **names.selector_labels(name),
            **names.experiment_labels(experiment),
            names.VARIANT_LABEL: variant.name,
        },
        selector=names.selector_labels(name),
        annotations=annotations_of(measured, experiment, image),
        pod=pod,
        needs=(account, *needs),
        claim_templates=templates,
        devices=devices,
        flags=command.flags,
        model=served_model_name(experiment.spec),
        remarks=tuple(_remarks(measured)),
    )


def _bindings(experiment: resolved.ResolvedNeuron, given: Mapping[str, str]) -> names.Bindings:
    values = {field: placeholder(variable) for field, variable in BUCKETS.items()}
    return names.Bindings(
        region=experiment.spec.aws.region,
        **{**values, **given},
        results_bucket="",
        run_spec_url="",
        run_spec_sha256="",
        llmperf_image="",
    )


def _remarks(measured: MeasuredWinner) -> Iterator[str]:
    winner = measured.winner
    if not winner.speculates:
        yield "No variant is shown to be cheaper: the winner is the baseline, without speculation."
    elif len(winner.cheaper_at) < len(winner.decisive):
        loads = ", ".join(load.label for load in winner.cheaper_at)
        yield f"It is shown to be cheaper at {loads} only: keep the load there."
    if winner.speculates and watched(measured) is None:
        yield why_no_alarm(measured)


def deployment(export: Export) -> list[Object]:
    """Return the ResourceClaimTemplate if there is one, the Service and the Deployment."""
    made = objects_in(
        "charts.winner",
        "deployment.yaml.jinja",
        export=export,
        port=SERVING_PORT,
    )
    return [*export.claim_templates, *made]


MODE: dict[str, str] = {
    "serving.kserve.io/deploymentMode": "Standard",
    # Only one server was measured; the user decides how many are needed.
    "serving.kserve.io/autoscalerClass": "none",
}


def inference_service(export: Export) -> Object:
    """Return the winner as an InferenceService of KServe."""
    # KServe expects this name for the container with the server.
    server = {**export.server, "name": "kserve-container"}
    mode = {**MODE, **export.annotations}
    (made,) = objects_in(
        "charts.winner", "kserve.yaml.jinja", export=export, server=server, mode=mode
    )
    return cast(Object, made)
