"""Names of Kubernetes objects, and the values of a deployment that the charts need.

Names of AWS resources are in `draftworth.experiment.naming`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftworth.experiment.naming import PROJECT, content_hash, dns_label
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.serving.server_command import SERVING_PORT


@dataclass(frozen=True, kw_only=True)
class Bindings:
    """Names of AWS resources: real ones, CDK tokens, or placeholders like `${RESULTS_BUCKET}`."""

    region: str
    checkpoints_bucket: str
    artifacts_bucket: str
    results_bucket: str
    run_spec_url: str
    """`s3://BUCKET/KEY` of the run specification."""
    run_spec_sha256: str
    """`RunSpecFile.sha256` of that object, which the pod checks."""
    llmperf_image: str
    llmperf_image_fingerprint: str = ""
    """A text that changes whenever the image changes: `DockerImageAsset.asset_hash`.

    Needed when `llmperf_image` is a CDK token, whose text says nothing about the image.
    """


# A cluster holds one experiment, because Services are named by variant, not by experiment.
NAMESPACE = PROJECT
# EKS Pod Identity associates an IAM role with each of these and with each variant's `service_name`.
MEASURING_JOB_SERVICE_ACCOUNT = "llmperf"
STAGER_SERVICE_ACCOUNT = "stager"

# Labels that the node groups carry.
CPU_NODE_LABELS: Mapping[str, str] = {"draftworth/node-group": "cpu"}
ACCELERATOR_NODE_LABELS: Mapping[str, str] = {"draftworth/node-group": "accelerator"}
# Taint of the accelerator nodes (effect NoSchedule); the Neuron DRA driver tolerates it too.
ACCELERATOR_TAINT_KEY = "aws.amazon.com/neuron"

SERVING_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "serving"}
MEASURING_JOB_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "load-generator"}
STAGER_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "checkpoint-stager"}
CANARY_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "canary"}

VARIANT_LABEL = "draftworth/variant"
# The value of this label is `server_name`.
SERVER_LABEL = "app.kubernetes.io/instance"

CONTENT_HASH_LENGTH = 8
# The text of a CDK token has a number that changes when unrelated code changes.
_CDK_TOKEN = re.compile(r"\$\{Token\[[^\]]*\]\}")


def service_name(variant_name: str) -> str:
    """Return the name of a variant's service account, and of its server in the home slot."""
    return f"vllm-{dns_label(variant_name)}"


def server_name(slot: PlacedSlot) -> str:
    """Return the name of the Deployment and the Service of a variant's server in a slot.

    In the home slot, where the server runs from the start, the name is `service_name`, for example
    `vllm-baseline`. In another slot it is `slot1-vllm-baseline`, which is never a `service_name`.
    A search's candidate has no home slot, so its server's name has the slot. If a later deploy
    measures the variant without a search, its server gets a new name: with the old name,
    CloudFormation, which deletes old objects last, would delete the new server.
    """
    home = service_name(slot.variant)
    return home if slot.is_home else f"slot{slot.number}-{home}"


def server_names(experiment: ResolvedNeuron) -> tuple[str, ...]:
    """Return the names of all servers, also of those that do not run from the start."""
    return tuple(server_name(slot) for variant in experiment.variants for slot in variant.slots)


def base_url(server: str) -> str:
    """Return the URL of a server inside the cluster, without `/v1`."""
    return f"http://{server}.{NAMESPACE}.svc:{SERVING_PORT}"


def experiment_labels(experiment: ResolvedExperiment) -> dict[str, str]:
    """Return the labels that all objects of an experiment have."""
    return {
        "app.kubernetes.io/part-of": PROJECT,
        "draftworth/experiment": experiment.name,
    }


def selector_labels(server: str) -> dict[str, str]:
    """Return the labels that select the pods of one server, not of the variant's other server.

    They are as few as possible, because a Deployment's selector cannot be changed.
    """
    return {**SERVING_COMPONENT, SERVER_LABEL: server}


def server_labels(experiment: ResolvedNeuron, slot: PlacedSlot) -> dict[str, str]:
    """Return the labels of one server's objects."""
    variant = {VARIANT_LABEL: slot.variant}
    return component_labels("vllm", {**selector_labels(server_name(slot)), **variant}, experiment)


def component_labels(
    name: str, component: Mapping[str, str], experiment: ResolvedNeuron
) -> dict[str, str]:
    """Return the labels of a component's objects: `name`, `component` and the experiment's.

    A canary gets no label that a server's Service selects.
    """
    return {"app.kubernetes.io/name": name, **component, **experiment_labels(experiment)}


def content_name(prefix: str, content: Any) -> str:
    """Return a name with a hash of the content, for an object that cannot be changed in place.

    All CDK tokens in the content count as equal, because their numbers differ between syntheses.
    """
    return f"{prefix}-{stable_hash(content, length=CONTENT_HASH_LENGTH)}"


def stable_hash(content: Any, *, length: int) -> str:
    """Return `length` hex digits of a hash of the content; all CDK tokens in it count as equal."""
    return content_hash(_masked(content), length=length)


def has_cdk_token(text: str) -> bool:
    """Return whether the text has a CDK token: a value that is known only at deployment."""
    return _CDK_TOKEN.search(text) is not None


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _CDK_TOKEN.sub("<token>", value)
    if isinstance(value, Mapping):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    return value
