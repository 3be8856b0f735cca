"""The vLLM server of a variant in a slot: a Deployment and its Service."""

from collections.abc import Mapping
from typing import Any

from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.bucket_volumes import BucketVolume
from charts.shared_settings import SharedSettings
from charts.start_program import start_program
from charts.vllm_pod import Slot, vllm_pod
from draftworth.records.servers import COMPILE_LIMIT_MINUTES
from draftworth.serving.server_command import SERVING_PORT, Flags, ModelPaths, flag_texts

# The limit for compiling, and half an hour in which a node joins the cluster and pulls the image.
PROGRESS_DEADLINE_SECONDS = 60 * (COMPILE_LIMIT_MINUTES + 30)
_STARTUP = (
    f"up to {COMPILE_LIMIT_MINUTES} minutes: a start that finds no compiled graphs compiles the "
    "model first"
)


class VllmServer(Construct):
    """A server for one variant in one of its slots (a slot is the set of devices of one server).

    All servers of an experiment have the same settings `shared`. Variants and slots differ in the
    other parameters only, so the comparison of variants is fair:

    name: of the Deployment and the Service (`names.server_name`). variant: the variant's name.
    flags: of `vllm serve`; the variant decides those for speculation.
    draft: the volume with the draft model; None: the variant has no separate draft model.
    artifact_key, artifact_inputs: the name of the compiled graphs, and the values of which this
        name is a hash.
    claim_template: the name of the ResourceClaimTemplate for the slot's devices.
    replicas: 1 if the server runs from the start, 0 if the measuring Job starts it.

    content: the Deployment without its metadata, as plain data.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: SharedSettings,
        name: str,
        variant: str,
        flags: Flags,
        draft: BucketVolume | None,
        artifact_key: str,
        artifact_inputs: Mapping[str, Any],
        claim_template: str,
        replicas: int,
    ) -> None:
        super().__init__(scope, id_)
        volumes = [v for v in (shared.target, draft, shared.artifacts) if v]
        pod = vllm_pod(
            image=shared.image,
            account=names.service_name(variant),
            arguments=[ModelPaths().target, *flag_texts(flags)],
            engine_environment=shared.engine_environment,
            volumes=[volume.in_pod() for volume in volumes],
            mounts=[volume.mount() for volume in volumes],
            program=start_program(
                shared, artifact_key=artifact_key, artifact_inputs=artifact_inputs
            ),
            slot=Slot(
                instance_type=shared.instance_type,
                claim_template=claim_template,
                resources=shared.resources,
            ),
        )
        labels = names.server_labels(name, variant, shared.experiment)
        deployment = k8s.KubeDeployment(
            self,
            "Deployment",
            metadata=k8s.ObjectMeta(
                name=name,
                namespace=names.NAMESPACE,
                labels=labels,
                annotations={"draftworth/startup": _STARTUP},
            ),
            spec=_deployment_spec(name, labels, pod, replicas=replicas, rerun=shared.rerun),
        )
        self.content: dict[str, Any] = deployment.to_json()
        del self.content["metadata"]
        k8s.KubeService(
            self,
            "Service",
            metadata=k8s.ObjectMeta(name=name, namespace=names.NAMESPACE, labels=labels),
            spec=service_spec(names.selector_labels(name)),
        )


def _deployment_spec(
    name: str, labels: Mapping[str, str], pod: k8s.PodSpec, *, replicas: int, rerun: int
) -> k8s.DeploymentSpec:
    # If the program `start` has given up a server, for example after failed starts, it does not
    # start the server again in the same pod. If a user raises `rerun`, this annotation of the pod
    # changes, so Kubernetes replaces the pod.
    annotations = {"draftworth/rerun": str(rerun)}
    return k8s.DeploymentSpec(
        replicas=replicas,
        # A rolling update would need devices for a second pod.
        strategy=k8s.DeploymentStrategy(type="Recreate"),
        revision_history_limit=1,
        progress_deadline_seconds=PROGRESS_DEADLINE_SECONDS,
        selector=k8s.LabelSelector(match_labels=names.selector_labels(name)),
        template=k8s.PodTemplateSpec(
            metadata=k8s.ObjectMeta(labels=labels, annotations=annotations), spec=pod
        ),
    )


def service_spec(selector: Mapping[str, str]) -> k8s.ServiceSpec:
    """Return the spec of the Service of a server. selector: labels of the server's pods."""
    # The target port equals the Service's: else the VPC CNI does not enforce network policies.
    port = k8s.ServicePort(
        name="http",
        port=SERVING_PORT,
        target_port=k8s.IntOrString.from_number(SERVING_PORT),
        protocol="TCP",
    )
    return k8s.ServiceSpec(type="ClusterIP", selector=selector, ports=[port])
