"""Rights of the experiment's pods in AWS: each has its own part of one bucket or two."""

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack, aws_iam, aws_s3
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts import names
from draftworth.experiment.naming import RUNS_PREFIX
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records.artifacts import manifest_key
from draftworth.records.deployment import canary_key
from draftworth.records.servers import SERVERS_FOLDER, server_state_key
from stacks.constructs.roles import CREATED_NOT_REPLACED, accept_folders, allow, grant, pod_role


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
        run_spec_arn: str,
    ) -> None:
        super().__init__(scope, id_)
        self._cluster_name = cluster_name
        self._build_stager(experiment, checkpoints)
        for variant in experiment.variants:
            self._build_server(variant, checkpoints, artifacts, results)
        self._build_load_generator(results, run_spec_arn)

    def _build_stager(self, experiment: ResolvedNeuron, checkpoints: aws_s3.IBucket) -> None:
        stager = self._role(names.STAGER_SERVICE_ACCOUNT, "put checkpoints into their bucket")
        models = [_objects_of(model) for model in experiment.spec.models]
        _let_read(stager, checkpoints, models)
        # Uploads in parts can be aborted; nothing is deleted.
        staging = ["s3:AbortMultipartUpload", "s3:PutObject"]
        objects = [checkpoints.arn_for_objects(key) for key in models]
        grant(stager, allow("StageCheckpoints", staging, objects))
        if secret := experiment.spec.aws.hub_token_secret:
            arn = Stack.of(stager).format_arn(
                service="secretsmanager",
                resource="secret",
                # A secret's ARN ends in a hyphen and six characters of AWS.
                resource_name=f"{secret}-??????",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
            grant(stager, allow("ReadHubToken", ["secretsmanager:GetSecretValue"], [arn]))

    def _build_server(
        self,
        variant: NeuronVariant,
        checkpoints: aws_s3.IBucket,
        artifacts: aws_s3.IBucket,
        results: aws_s3.IBucket,
    ) -> None:
        # Variants with one key have one graph, and both may upload it.
        server = self._role(
            names.service_name(variant.name), "read checkpoints, keep compiled graphs"
        )
        # Mounted by prefix, so every requested path is below it.
        _let_read(server, checkpoints, [_objects_of(m) for m in variant.checkpoints.values()])
        # The whole bucket is mounted, so Mountpoint asks for the folder as an object too.
        key = variant.artifact_key
        _let_read(server, artifacts, [key, f"{key}/*"])
        _let_upload_graphs(server, artifacts, key)
        # It and its canary replace their own reports, which can only delay paid nodes or end them.
        canary = canary_key("*", variant.name)
        reports = (*(server_state_key(names.server_name(s)) for s in variant.slots), canary)
        objects = [results.arn_for_objects(key) for key in reports]
        grant(server, allow("ReportServerState", ["s3:PutObject"], objects))
        accept_folders(server, results, canary)

    def _build_load_generator(self, results: aws_s3.IBucket, run_spec_arn: str) -> None:
        # A new pod goes on where the one before stopped. Where the answer to a put was lost, the
        # writer looks whether the object is its own.
        measuring_job = self._role(
            names.MEASURING_JOB_SERVICE_ACCOUNT, "read prompts, write results"
        )
        runs, servers = f"{RUNS_PREFIX}*", f"{SERVERS_FOLDER}*"
        objects = [results.arn_for_objects(runs)]
        grant(
            measuring_job,
            # Of this deploy alone. The bucket's key needs no right: S3's own and the one of
            # `cdk bootstrap` let everybody in the account use them through S3.
            allow("ReadRunSpecification", ["s3:GetObject"], [run_spec_arn]),
            allow("ReadResults", ["s3:GetObject"], objects),
            # They tell whether a server was given up.
            allow("ReadServerStates", ["s3:GetObject"], [results.arn_for_objects(servers)]),
            allow("WriteResultsOnce", ["s3:PutObject"], objects, CREATED_NOT_REPLACED),
            allow(
                "ListRuns",
                ["s3:ListBucket"],
                [results.bucket_arn],
                {"StringLike": {"s3:prefix": runs}},
            ),
        )
        accept_folders(measuring_job, results, runs, servers)

    def _role(self, service_account: str, purpose: str) -> aws_iam.Role:
        role = pod_role(
            self,
            service_account,
            description=f"{service_account} pods: {purpose}",
            cluster_name=self._cluster_name,
            namespace=names.NAMESPACE,
            service_account=service_account,
        )
        eks.CfnPodIdentityAssociation(
            self,
            f"{service_account}-association",
            cluster_name=self._cluster_name,
            namespace=names.NAMESPACE,
            service_account=service_account,
            role_arn=role.role_arn,
        )
        return role


def _objects_of(model: HubModel) -> str:
    return f"{model.storage_prefix}/*"


def _let_read(role: aws_iam.Role, bucket: aws_s3.IBucket, objects: Sequence[str]) -> None:
    # The list has no condition on `s3:prefix`. Mountpoint asks for a path as an object before it
    # takes it for a folder, and S3 answers "not found" only to a role that may list. A condition on
    # the prefix does not hold for a request that names an object: the answer would be "denied", an
    # error.
    grant(
        role,
        allow(None, ["s3:ListBucket"], [bucket.bucket_arn]),
        allow(None, ["s3:GetObject"], [bucket.arn_for_objects(key) for key in objects]),
    )
    accept_folders(role, bucket, *(key for key in objects if key.endswith("/*")))


def _let_upload_graphs(role: aws_iam.Role, bucket: aws_s3.IBucket, key: str) -> None:
    # It may delete, because the slower of two uploads of one key removes its own folder.
    folders = f"{key}/*/*"
    grant(
        role,
        allow(
            "UploadGraphs",
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"],
            [bucket.arn_for_objects(folders)],
        ),
        allow(
            "WriteManifestOnce",
            ["s3:PutObject"],
            [bucket.arn_for_objects(manifest_key(key))],
            CREATED_NOT_REPLACED,
        ),
    )
    accept_folders(role, bucket, folders)
