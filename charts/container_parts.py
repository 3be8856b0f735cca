"""Parts that containers of several pods have: variables, resources, rights."""

from collections.abc import Mapping, Sequence

from cdk8s_plus_35 import k8s

# FOR_ROOT is for vLLM's container alone, whose image needs root and default capabilities. It has
# no raw sockets, with which it could pretend to be another pod: neither vLLM nor the Neuron runtime
# is known to open one. LOCKED_DOWN is for all other containers.
FOR_ROOT = k8s.SecurityContext(
    allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["NET_RAW"])
)
LOCKED_DOWN = k8s.SecurityContext(
    allow_privilege_escalation=False,
    read_only_root_filesystem=True,
    capabilities=k8s.Capabilities(drop=["ALL"]),
)
DEFAULT_SECCOMP = k8s.SeccompProfile(type="RuntimeDefault")


def environment(
    values: Mapping[str, str], pod_fields: Mapping[str, str] | None = None
) -> list[k8s.EnvVar]:
    """Return a container's environment variables: `values`, sorted by name, then `pod_fields`.

    values: {variable: value}.
    pod_fields: variables whose value is a field of the pod, {variable: the field's path}; a path is
        for example `metadata.name`.
    """
    return [
        *(k8s.EnvVar(name=name, value=value) for name, value in sorted(values.items())),
        *(
            k8s.EnvVar(
                name=name,
                value_from=k8s.EnvVarSource(field_ref=k8s.ObjectFieldSelector(field_path=path)),
            )
            for name, path in (pod_fields or {}).items()
        ),
    ]


def aws_environment(region: str) -> dict[str, str]:
    """Return the variables of a Python program that calls AWS in `region`."""
    # boto3 reads only AWS_DEFAULT_REGION, and other AWS clients read AWS_REGION.
    return {"AWS_REGION": region, "AWS_DEFAULT_REGION": region, "PYTHONUNBUFFERED": "1"}


def amounts(quantities: Mapping[str, str]) -> dict[str, k8s.Quantity]:
    """Return amounts of resources, such as {"memory": "2Gi"}, as Kubernetes' quantities."""
    return {name: k8s.Quantity.from_string(text) for name, text in quantities.items()}


def guaranteed(
    quantities: Mapping[str, str], claims: Sequence[str] = ()
) -> k8s.ResourceRequirements:
    """Return requests of resources that are also the limits, and the device claims to use.

    quantities: {resource: amount}, such as {"memory": "2Gi"}.
    claims: names of `resource_claims` in the pod's spec, whose devices the container gets.
    """
    both = amounts(quantities)
    return k8s.ResourceRequirements(
        requests=both,
        limits=both,
        claims=[k8s.ResourceClaim(name=name) for name in claims] or None,
    )


def gib(size: int) -> k8s.Quantity:
    """Return a size in GiB as Kubernetes' quantity."""
    return k8s.Quantity.from_string(f"{size}Gi")
