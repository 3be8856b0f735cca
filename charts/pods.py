"""Parts of Kubernetes objects that several charts need; names and labels are in `names.py`."""

from collections.abc import Mapping

from charts import k8s
from charts.names import NAMESPACE

# The user id in the measuring image.
USER_ID = 10001


def metadata(
    name: str, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> k8s.ObjectMeta:
    """Return the metadata of an object in our namespace."""
    return k8s.ObjectMeta(name=name, namespace=NAMESPACE, labels=labels, annotations=annotations)


def gib(amount: int) -> k8s.Quantity:
    """Return an amount of memory or storage in GiB as a Quantity."""
    return k8s.Quantity.from_string(f"{amount}Gi")


def resources(
    *,
    cpus: float,
    memory_gib: int,
    ephemeral_storage_gib: int | None = None,
    limit_cpus: bool = False,
    claims: list[k8s.ResourceClaim] | None = None,
) -> k8s.ResourceRequirements:
    """Return resource requests, with equal limits for memory and storage.

    limit_cpus: CPUs have a limit too (QoS class Guaranteed), so the container cannot slow down
    another server on the node, which may be measured.
    """
    amounts = {"memory": gib(memory_gib)}
    if ephemeral_storage_gib is not None:
        amounts["ephemeral-storage"] = gib(ephemeral_storage_gib)
    requests = {"cpu": k8s.Quantity.from_string(f"{cpus:g}"), **amounts}
    limits = requests if limit_cpus else amounts
    return k8s.ResourceRequirements(requests=requests, limits=limits, claims=claims)


def no_rights() -> k8s.SecurityContext:
    """Return the security context of a container: no capabilities, read-only file system."""
    return k8s.SecurityContext(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=k8s.Capabilities(drop=["ALL"]),
    )


def ordinary_user(fs_group: int | None) -> k8s.PodSecurityContext:
    """Return the security context of pods with our own image; `fs_group` owns their volumes."""
    return k8s.PodSecurityContext(
        run_as_non_root=True,
        run_as_user=USER_ID,
        run_as_group=USER_ID,
        fs_group=fs_group,
        seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
    )


def aws_environment(region: str) -> dict[str, str]:
    """Return the environment of a program that calls AWS; boto3 reads AWS_DEFAULT_REGION."""
    return {"AWS_REGION": region, "AWS_DEFAULT_REGION": region, "PYTHONUNBUFFERED": "1"}


def variables(environment: Mapping[str, str]) -> list[k8s.EnvVar]:
    """Return environment variables, sorted by name."""
    return [k8s.EnvVar(name=name, value=value) for name, value in sorted(environment.items())]


def field_variable(name: str, path: str) -> k8s.EnvVar:
    """Return an environment variable whose value is the pod's field at `path` (downward API)."""
    field = k8s.ObjectFieldSelector(field_path=path)
    return k8s.EnvVar(name=name, value_from=k8s.EnvVarSource(field_ref=field))


def empty_folder(name: str, *, size_gib: int, medium: str | None = None) -> k8s.Volume:
    """Return an emptyDir volume on the node's disk, or in memory with `medium="Memory"`."""
    source = k8s.EmptyDirVolumeSource(size_limit=gib(size_gib), medium=medium)
    return k8s.Volume(name=name, empty_dir=source)
