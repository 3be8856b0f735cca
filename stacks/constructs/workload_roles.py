"""What the experiment's own pods may do in AWS: each its own part of one bucket or two."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack, aws_iam, aws_s3
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts.names import (
    LOAD_GENERATOR_SERVICE_ACCOUNT,
    NAMESPACE,
    SERVING_SERVICE_ACCOUNT,
    STAGER_SERVICE_ACCOUNT,
)
from draftworth.experiment.naming import RUNS_PREFIX
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.artifact_manifest import manifest_key
from stacks.constructs.findings import accept_folders
from stacks.constructs.pod_roles import pod_role


class WorkloadRoles(Construct):
    """One role a service account, associated through EKS Pod Identity."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        cluster_name: str,
        checkpoints: aws_s3.IBucket,
        artifacts: aws_s3.IBucket,
        results: aws_s3.IBucket,
    ) -> None:
        super().__init__(scope, id_)
        self._cluster_name = cluster_name
        stager = self._role(STAGER_SERVICE_ACCOUNT, "put checkpoints into their bucket")
        _let_read(stager, checkpoints, _checkpoint_objects(experiment))
        _let_stage(stager, checkpoints, _checkpoint_objects(experiment))
        if experiment.spec.aws.hub_token_secret:
            _let_read_secret(stager, experiment.spec.aws.hub_token_secret)
        serving = self._role(SERVING_SERVICE_ACCOUNT, "read checkpoints, keep compiled artifacts")
        _let_read(serving, checkpoints, _checkpoint_objects(experiment))
        _let_read(serving, artifacts, _artifact_objects(experiment))
        _let_upload_graphs(serving, artifacts, _artifact_keys(experiment))
        load_generator = self._role(LOAD_GENERATOR_SERVICE_ACCOUNT, "writes results")
        # Get and list as well: a pod goes on where the one before it was, and where the answer to a
        # put was lost, the writer looks whether it was its own.
        load_generator.add_to_policy(
            aws_iam.PolicyStatement(
                sid="WriteResults",
                actions=["s3:GetObject", "s3:PutObject"],
                resources=[results.arn_for_objects(f"{RUNS_PREFIX}*")],
            )
        )
        load_generator.add_to_policy(
            aws_iam.PolicyStatement(
                sid="ListRuns",
                actions=["s3:ListBucket"],
                resources=[results.bucket_arn],
                conditions={"StringLike": {"s3:prefix": f"{RUNS_PREFIX}*"}},
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


def _checkpoint_objects(experiment: ResolvedNeuron) -> list[str]:
    """Mounted by prefix: every path that is asked for is below it."""
    return [f"{model.storage_prefix}/*" for model in experiment.spec.models]


def _let_stage(role: aws_iam.Role, bucket: aws_s3.IBucket, objects: Sequence[str]) -> None:
    """Put, and give up an upload in parts. Never delete: what is there may be somebody's."""
    role.add_to_policy(
        aws_iam.PolicyStatement(
            sid="StageCheckpoints",
            actions=["s3:AbortMultipartUpload", "s3:PutObject"],
            resources=[bucket.arn_for_objects(key) for key in objects],
        )
    )


def _let_read_secret(role: aws_iam.Role, name: str) -> None:
    """The one secret: Secrets Manager ends its ARN in a hyphen and six characters of its own."""
    arn = Stack.of(role).format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{name}-??????",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    role.add_to_policy(
        aws_iam.PolicyStatement(
            sid="ReadHubToken", actions=["secretsmanager:GetSecretValue"], resources=[arn]
        )
    )


def _artifact_objects(experiment: ResolvedNeuron) -> list[str]:
    """The whole bucket is mounted, so each folder is itself asked for as an object."""
    return [pattern for key in _artifact_keys(experiment) for pattern in (key, f"{key}/*")]


def _artifact_keys(experiment: ResolvedNeuron) -> list[str]:
    return [variant.artifact_key for variant in experiment.variants]


def _let_upload_graphs(role: aws_iam.Role, bucket: aws_s3.IBucket, keys: Sequence[str]) -> None:
    """Folders below the experiment's own keys, and each key's manifest: that one only once.

    Delete, because the slower of two uploads of one key removes its own folder.
    """
    folders = [f"{key}/*/*" for key in keys]
    role.add_to_policy(
        aws_iam.PolicyStatement(
            sid="UploadGraphs",
            actions=["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"],
            resources=[bucket.arn_for_objects(folder) for folder in folders],
        )
    )
    role.add_to_policy(
        aws_iam.PolicyStatement(
            sid="WriteManifestsOnce",
            actions=["s3:PutObject"],
            resources=[bucket.arn_for_objects(manifest_key(key)) for key in keys],
            conditions={"Null": {"s3:if-none-match": "false"}},
        )
    )
    accept_folders(role, bucket, *folders)
