"""Names and labels of Kubernetes objects.

Names of AWS resources are in `draftworth.experiment.naming`.
"""

from collections.abc import Mapping

from draftworth.experiment.naming import PROJECT, dns_label
from draftworth.experiment.placement import PlacedSlot
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.serving.server_command import SERVING_PORT

# A cluster holds one experiment, because Services are named by variant, not by experiment.
NAMESPACE = PROJECT
# EKS Pod Identity associates an IAM role with each of these service accounts, and with that of each
# variant (`service_name`).
MEASURING_JOB_SERVICE_ACCOUNT = "llmperf"
STAGER_SERVICE_ACCOUNT = "stager"
# Without an IAM role and without rights in Kubernetes.
LISTENER_SERVICE_ACCOUNT = "listener"

# Labels that a node gets from its node group.
CPU_NODE_LABELS: Mapping[str, str] = {"draftworth/node-group": "cpu"}
ACCELERATOR_NODE_LABELS: Mapping[str, str] = {"draftworth/node-group": "accelerator"}
# Taint of the accelerator nodes (effect NoSchedule); the Neuron DRA driver tolerates it too.
ACCELERATOR_TAINT_KEY = "aws.amazon.com/neuron"

SERVING_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "serving"}
MEASURING_JOB_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "load-generator"}
STAGER_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "checkpoint-stager"}
CANARY_COMPONENT: Mapping[str, str] = {"app.kubernetes.io/component": "canary"}

VARIANT_LABEL = "draftworth/variant"
# The key of a label whose value is the name of a server's Deployment (`server_name`).
SERVER_LABEL = "app.kubernetes.io/instance"


def service_name(variant_name: str) -> str:
    """Return the name of a variant's service account, for example `vllm-baseline`.

    The variant's first server has the same name. It runs in the home slot: the set of devices in
    which the variant starts.
    """
    return f"vllm-{dns_label(variant_name)}"


def server_name(slot: PlacedSlot) -> str:
    """Return the name of the Deployment and the Service of a variant's server in a slot.

    In the home slot, where the server runs from the start, the name is `service_name`, for example
    `vllm-baseline`. In another slot it is `slot1-vllm-baseline`, which is never a `service_name`.
    A search's candidate has no home slot, so its server's name always has the slot's number. So if
    a later deploy measures the same variant without a search, the server's name is another one.
    This is needed: CloudFormation deletes the search's objects by their names after it has created
    the new ones, so it would delete a new server that had the old name.
    """
    home = service_name(slot.variant)
    return home if slot.is_home else f"slot{slot.number}-{home}"


def server_names(experiment: ResolvedNeuron) -> tuple[str, ...]:
    """Return the names of all servers, also of those that do not run from the start."""
    return tuple(server_name(slot) for variant in experiment.variants for slot in variant.slots)


def base_url(server: str) -> str:
    """Return the URL of a server inside the cluster, without `/v1`."""
    return f"http://{server}.{NAMESPACE}.svc:{SERVING_PORT}"


def experiment_labels(experiment: str) -> dict[str, str]:
    """Return the labels that all objects of the experiment with this name have."""
    return {"app.kubernetes.io/part-of": PROJECT, "draftworth/experiment": experiment}


def selector_labels(server: str) -> dict[str, str]:
    """Return labels that select one server's pods, not those of its variant's other server.

    They are as few as possible, because a Deployment's selector cannot be changed.
    """
    return {**SERVING_COMPONENT, SERVER_LABEL: server}


def server_labels(server: str, variant: str, experiment: str) -> dict[str, str]:
    """Return the labels of one server's objects.

    server: the name of the server's Deployment (`server_name`).
    variant, experiment: the names of the variant and of the experiment.
    """
    return component_labels("vllm", {**selector_labels(server), VARIANT_LABEL: variant}, experiment)


def component_labels(name: str, component: Mapping[str, str], experiment: str) -> dict[str, str]:
    """Return the labels of the objects of one component of the experiment, such as the canaries.

    name: the value of `app.kubernetes.io/name`. component: labels of this component alone, so that
        no selector of another component matches them. experiment: the experiment's name.
    """
    return {"app.kubernetes.io/name": name, **component, **experiment_labels(experiment)}
