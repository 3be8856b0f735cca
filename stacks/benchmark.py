"""The benchmark: the experiment's Kubernetes objects, the metrics publisher and the dashboard."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

import cdk8s
from aws_cdk import Stack, aws_cloudwatch, aws_logs, aws_sqs
from aws_cdk import aws_eks_v2 as eks
from constructs import IConstruct

from charts.benchmark_charts import benchmark_charts, in_steps
from charts.bindings import Bindings
from charts.measuring_job import MeasuringChart
from charts.names import server_name
from charts.run_spec_file import run_spec_file
from draftworth.experiment.catalog import catalog
from draftworth.experiment.naming import RUNS_PREFIX
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.deployment import PATHS, CapacityPlan, DraftRef, ModelRef
from draftworth.records.servers import START_ALLOWANCE_MINUTES
from stacks.assets import measuring_image, run_spec_asset
from stacks.base import StackPart
from stacks.cluster import Cluster
from stacks.constructs.applied_charts import apply_charts
from stacks.constructs.capacity_controller import CapacityController
from stacks.constructs.metrics_publisher import MetricsPublisher
from stacks.constructs.workload_roles import WorkloadRoles
from stacks.dashboard import ComparisonDashboard
from stacks.storage import Storage

# The dashboard's logical id in stacks that earlier versions deployed. It must not change: with
# another id, CloudFormation would first create a dashboard of the same name, and then delete the
# resource with the old id, which is the dashboard of that name.
DASHBOARD_LOGICAL_ID = "benchmarkDashboard0B8857C1"


class Benchmark(StackPart):
    """The part of the stack that measures and publishes metrics; no other part depends on it."""

    def __init__(
        self,
        scope: Stack,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        cluster: Cluster,
        storage: Storage,
        synthesized_at: datetime,
    ) -> None:
        super().__init__(scope, id_, experiment=experiment)
        self._experiment = experiment
        self._storage = storage
        file = run_spec_file(experiment)
        run_spec = run_spec_asset(self, "RunSpecification", file)
        self.publisher = MetricsPublisher(
            self, "MetricsPublisher", results=storage.results, queue=storage.results_queue
        )
        self.roles = WorkloadRoles(
            self,
            "WorkloadRoles",
            experiment=experiment,
            cluster_name=cluster.cluster.cluster_name,
            checkpoints=storage.checkpoints,
            artifacts=storage.artifacts,
            results=storage.results,
            run_spec_arn=run_spec.bucket.arn_for_objects(run_spec.s3_object_key),
        )
        bindings = self._bindings(run_spec_url=run_spec.s3_object_url, run_spec_sha256=file.sha256)
        *charts, canary = benchmark_charts(experiment, bindings)
        applied = self._apply_charts(cluster.cluster, charts, after=self.roles)
        (measuring,) = (chart for chart in charts if isinstance(chart, MeasuringChart))
        self.capacity = CapacityController(
            self,
            "CapacityController",
            plan=capacity_plan(experiment, job_name=measuring.job_name),
            nodegroup_arn=cluster.accelerator_nodes.group.nodegroup_arn,
            synthesized_at=synthesized_at,
            notify_email=experiment.spec.aws.notify_email,
            checkpoints=storage.checkpoints,
            results=storage.results,
            deployed_after=applied,
        )
        # The canaries start after the capacity controller has learned of this deploy, so that it
        # can use their reports.
        self._apply_charts(cluster.cluster, [canary], after=self.capacity.deployment)
        self._build_outputs()
        self._build_dashboard()

    def _apply_charts(
        self, cluster: eks.ICluster, charts: Sequence[cdk8s.Chart], *, after: IConstruct
    ) -> list[IConstruct]:
        # The construct `after` is created before the first charts. For the charts of the servers it
        # is the IAM roles, because a pod gets AWS credentials only if its role is associated with
        # its service account before the pod starts.
        applied = [after]
        for step in in_steps(charts):
            applied = apply_charts(self, step, cluster=cluster, after=applied)
        return applied

    def _bindings(self, *, run_spec_url: str, run_spec_sha256: str) -> Bindings:
        given_image = self._experiment.spec.aws.load_generator_image
        image, fingerprint = given_image or "", ""
        if given_image is None:
            asset = measuring_image(self, "LoadGenerator")
            image, fingerprint = asset.image_uri, asset.asset_hash
        return Bindings(
            region=self._experiment.spec.aws.region,
            checkpoints_bucket=self._storage.checkpoints.bucket_name,
            artifacts_bucket=self._storage.artifacts.bucket_name,
            results_bucket=self._storage.results.bucket_name,
            run_spec_url=run_spec_url,
            run_spec_sha256=run_spec_sha256,
            llmperf_image=image,
            llmperf_image_fingerprint=fingerprint,
        )

    def _build_outputs(self) -> None:
        self.output(
            "NotificationsTopic",
            self.capacity.topic.topic_arn,
            "Each decision about the accelerator nodes; subscribe what you like",
        )
        log_group = self.capacity.log_group.log_group_name
        self.output(
            "DecisionsCommand",
            f"aws logs tail {log_group} --region {self.region} --follow",
            "Shows each decision about the accelerator nodes, and why",
        )

    def _build_dashboard(self) -> None:
        dashboard = ComparisonDashboard(
            self,
            "Dashboard",
            experiment=self._experiment,
            dead_letters=cast(aws_sqs.IQueue, self._storage.results_queue.dead_letters),
            publisher_log=cast(aws_logs.ILogGroup, self.publisher.log_group),
            runs_url=f"s3://{self._storage.results.bucket_name}/{RUNS_PREFIX}",
        )
        resource = cast(aws_cloudwatch.CfnDashboard, dashboard.node.default_child)
        resource.override_logical_id(DASHBOARD_LOGICAL_ID)
        name, region = self.names.dashboard, self.region
        self.output(
            "DashboardUrl",
            f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
            f"#dashboards/dashboard/{name}",
            "Baseline beside speculation, as results come in",
        )


def capacity_plan(experiment: ResolvedNeuron, *, job_name: str) -> CapacityPlan:
    """Return what the capacity controller must know to start and end the accelerator nodes.

    job_name: the name of the measuring Job, which needs the nodes.
    """
    aws, names = experiment.spec.aws, experiment.names
    capacity = aws.capacity
    return CapacityPlan(
        experiment=experiment.name,
        job_name=job_name,
        cluster_name=names.cluster,
        nodegroup_name=names.node_group(capacity.kind),
        nodegroup_tags=names.tags("cluster"),
        nodes=experiment.placement.nodes,
        variants=(*(variant.name for variant in experiment.canaries), PATHS),
        servers=tuple(_needed_servers(experiment)),
        startup_minutes=START_ALLOWANCE_MINUTES,
        target=_reference(experiment.spec.target),
        drafts=tuple(dict.fromkeys(_drafts(experiment))),
        deadline_minutes=aws.deadline_minutes,
        budget_usd=aws.accelerator_budget_usd,
        price_usd_per_node_hour=experiment.node_price.usd_per_hour,
        price_as_of=experiment.node_price.as_of.isoformat(),
        capacity=capacity.kind,
        reservation_id=capacity.reservation_id,
        availability_zone=aws.availability_zone,
        instance_type=experiment.spec.instance_type,
        hold=aws.hold,
    )


def _needed_servers(experiment: ResolvedNeuron) -> Iterator[str]:
    # A search continues without a candidate whose server fails, so in a search only the baseline's
    # servers are needed.
    for variant in experiment.variants:
        if variant.is_baseline or experiment.spec.search is None:
            yield from map(server_name, variant.slots)


def _reference(model: HubModel) -> ModelRef:
    return ModelRef(model=model.model, revision=model.revision)


def _drafts(experiment: ResolvedNeuron) -> Iterator[DraftRef]:
    for variant in experiment.variants:
        if draft := variant.checkpoints.get("draft"):
            method = catalog().methods[variant.spec.method]
            yield DraftRef(checkpoint=_reference(draft), vocabulary=method.tokenizer)
