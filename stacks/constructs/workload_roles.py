"""What the experiment's own pods may do in AWS: the servers read, the load generator writes."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam, aws_s3
from constructs import Construct

from charts.names import LOAD_GENERATOR_SERVICE_ACCOUNT, NAMESPACE, SERVING_SERVICE_ACCOUNT
from draftbench.artifacts import artifact_key
from draftbench.experiment import HubSpeculative, NeuronExperiment
from draftbench.names import RUNS_PREFIX
from stacks.constructs.findings import accept_folders
from stacks.constructs.pod_roles import pod_role


class WorkloadRoles(Construct):
    """One role a service account, associated through EKS Pod Identity."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: NeuronExperiment,
        cluster_name: str,
        checkpoints: aws_s3.IBucket,
        artifacts: aws_s3.IBucket,
        results: aws_s3.IBucket,
    ) -> None:
        super().__init__(scope, id_)
        self._cluster_name = cluster_name
        serving = self._role(SERVING_SERVICE_ACCOUNT, "reads checkpoints and compiled artifacts")
        _let_read(serving, checkpoints, _checkpoint_objects(experiment))
        _let_read(serving, artifacts, _artifact_objects(experiment))
        load_generator = self._role(LOAD_GENERATOR_SERVICE_ACCOUNT, "writes results")
        # Get as well: where the answer to a put was lost, the writer looks whether it was its own.
        load_generator.add_to_policy(
            aws_iam.PolicyStatement(
                sid="WriteResults",
                actions=["s3:GetObject", "s3:PutObject"],
                resources=[results.arn_for_objects(f"{RUNS_PREFIX}*")],
            )
        )
        accept_folders(load_generator, results, f"{RUNS_PREFIX}*")

    def _role(self, service_account: str, purpose: str) -> aws_iam.Role:
        role = pod_role(self, service_account, description=f"{service_account} pods: {purpose}")
        eks.CfnPodIdentityAssociation(
            self,
            f"{service_account}-association",
            cluster_name=self._cluster_name,
            namespace=NAMESPACE,
            service_account=service_account,
            role_arn=role.role_arn,
        )
        return role


def _let_read(role: aws_iam.Role, bucket: aws_s3.IBucket, objects: Sequence[str]) -> None:
    """Objects by key or by folder, and the list of all names.

    The list has no condition on `s3:prefix`. Mountpoint asks for a path as an object before it
    takes it for a folder, and S3 says "not found" only to who may list. A condition on the prefix
    does not hold for a request that names an object: the answer would be "denied", and an error.
    """
    role.add_to_policy(
        aws_iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn])
    )
    role.add_to_policy(
        aws_iam.PolicyStatement(
            actions=["s3:GetObject"], resources=[bucket.arn_for_objects(key) for key in objects]
        )
    )
    accept_folders(role, bucket, *(key for key in objects if key.endswith("/*")))


def _checkpoint_objects(experiment: NeuronExperiment) -> list[str]:
    """Mounted by prefix: every path that is asked for is below it."""
    drafts = [v.draft for v in experiment.variants if isinstance(v, HubSpeculative)]
    prefixes = dict.fromkeys(m.storage_prefix for m in (experiment.target, *drafts))
    return [f"{prefix}/*" for prefix in prefixes]


def _artifact_objects(experiment: NeuronExperiment) -> list[str]:
    """The whole bucket is mounted, so each folder is itself asked for as an object."""
    keys = [artifact_key(experiment, variant) for variant in experiment.variants]
    return [pattern for key in keys for pattern in (key, f"{key}/*")]
