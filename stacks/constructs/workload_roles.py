"""IAM roles of the experiment's pods; each role is limited to its own folders of the buckets."""

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack, aws_iam, aws_s3
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts import names
from draftworth.experiment.naming import RUNS_PREFIX
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records.deployment import PATHS, canary_key
from draftworth.records.graph_manifests import manifest_key
from draftworth.records.servers import SERVERS_FOLDER, server_state_key
from stacks.constructs.roles import CREATED_NOT_REPLACED, accept_folders, allow, grant, pod_role


class WorkloadRoles(Construct):
    """One IAM role for each service account, associated through EKS Pod Identity."""

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
        self._checkpoints, self._artifacts, self._results = checkpoints, artifacts, results
        self._build_stager(experiment)
        for variant in experiment.variants:
            self._build_server(variant)
        self._build_load_generator(run_spec_arn)

    def _build_stager(self, experiment: ResolvedNeuron) -> None:
        stager = self._role(names.STAGER_SERVICE_ACCOUNT, "put checkpoints into their bucket")
        models = [_objects_of(model) for model in experiment.spec.models]
        _let_read(stager, self._checkpoints, models)
        # The stager may abort a multipart upload, but delete no object.
        staging = ["s3:AbortMultipartUpload", "s3:PutObject"]
        objects = [self._checkpoints.arn_for_objects(key) for key in models]
        grant(stager, allow("StageCheckpoints", staging, objects))
        if secret := experiment.spec.aws.hub_token_secret:
            arn = Stack.of(stager).format_arn(
                service="secretsmanager",
                resource="secret",
                # AWS ends a secret's ARN with a hyphen and six random characters.
                resource_name=f"{secret}-??????",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
            grant(stager, allow("ReadHubToken", ["secretsmanager:GetSecretValue"], [arn]))

    def _build_server(self, variant: NeuronVariant) -> None:
        # Variants with the same artifact key share compiled graphs, and each may upload them.
        server = self._role(
            names.service_name(variant.name), "read checkpoints, keep compiled graphs"
        )
        # Mountpoint mounts each checkpoint with its key prefix, so it requests only keys that begin
        # with that prefix.
        models = [_objects_of(model) for model in variant.checkpoints.values()]
        _let_read(server, self._checkpoints, models)
        # The whole bucket is mounted, so Mountpoint also requests the key of the variant's folder:
        # it does not know yet whether the path is an object or a folder.
        key = variant.artifact_key
        _let_read(server, self._artifacts, [key, f"{key}/*"])
        _let_upload_graphs(server, self._artifacts, key)
        # Server and canary may replace their own reports in the bucket. A false report can only
        # make the capacity controller delay or end nodes.
        canary = canary_key("*", variant.name)
        reports = (*(server_state_key(names.server_name(s)) for s in variant.slots), canary)
        objects = [self._results.arn_for_objects(key) for key in reports]
        grant(server, allow("ReportServerState", ["s3:PutObject"], objects))
        accept_folders(server, self._results, canary)

    def _build_load_generator(self, run_spec_arn: str) -> None:
        # The measuring Job may read results, because a new pod continues the run that an earlier
        # pod began, and because a pod that got no answer to a put reads whether it succeeded.
        measuring_job = self._role(
            names.MEASURING_JOB_SERVICE_ACCOUNT, "read prompts, write results"
        )
        results, runs, servers = self._results, f"{RUNS_PREFIX}*", f"{SERVERS_FOLDER}*"
        canary = canary_key("*", PATHS)
        objects = [results.arn_for_objects(runs)]
        grant(
            measuring_job,
            # Only this deploy's run specification, in CDK's assets bucket. No right to decrypt is
            # needed: the bucket's key is S3's own or made by `cdk bootstrap`, and all principals
            # of the account may use it through S3.
            allow("ReadRunSpecification", ["s3:GetObject"], [run_spec_arn]),
            allow("ReadResults", ["s3:GetObject"], objects),
            # The Job reads in a server's state whether the server was given up.
            allow("ReadServerStates", ["s3:GetObject"], [results.arn_for_objects(servers)]),
            allow("WriteResultsOnce", ["s3:PutObject"], objects, CREATED_NOT_REPLACED),
            # The canary of the Job's paths has its service account, and replaces its own report.
            allow("ReportPaths", ["s3:PutObject"], [results.arn_for_objects(canary)]),
            allow(
                "ListRuns",
                ["s3:ListBucket"],
                [results.bucket_arn],
                {"StringLike": {"s3:prefix": runs}},
            ),
        )
        accept_folders(measuring_job, results, runs, servers, canary)

    def _role(self, service_account: str, purpose: str) -> aws_iam.Role:
        role = pod_role(
            self,
            service_account,
            description=f"{service_account} pods: {purpose}",
            cluster_name=self._cluster_name,
            namespace=names.NAMESPACE,
            service_account=service_account,
        )
        # Not `ServiceAccount`, whose role any pod with Pod Identity in any cluster may assume.
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
    # `s3:ListBucket` has no condition on `s3:prefix`. Mountpoint first requests a path as an object
    # and only then as a folder. For a missing object S3 answers 404 only to a role that may list,
    # else 403, which Mountpoint reports as an error. A condition on the prefix would not match that
    # request, which has a key and no prefix.
    grant(
        role,
        allow(None, ["s3:ListBucket"], [bucket.bucket_arn]),
        allow(None, ["s3:GetObject"], [bucket.arn_for_objects(key) for key in objects]),
    )
    accept_folders(role, bucket, *(key for key in objects if key.endswith("/*")))


def _let_upload_graphs(role: aws_iam.Role, bucket: aws_s3.IBucket, key: str) -> None:
    # The role may delete: if two servers upload graphs of the same artifact key, the slower server
    # removes its own folder.
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
