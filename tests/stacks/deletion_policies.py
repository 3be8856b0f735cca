"""Rules, one per resource type, for what a template must say so that a destroy leaves nothing.

A type without a rule fails the test until somebody writes its rule here: what a resource of the
type leaves behind, what writes logs for it, what must be empty before it can be deleted.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from draftworth.planning.resolved import ResolvedNeuron
from tests.stacks.rendering import collapsed
from tests.stacks.synthesis import Resource, Template, of_type

MAX_RETENTION_DAYS = 31
MAX_QUEUE_RETENTION_SECONDS = 14 * 24 * 3600
INSIGHTS_LOGS = ("application", "dataplane", "host", "performance")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A resource with its template and its experiment, for a rule to judge."""

    experiment: ResolvedNeuron
    template: Template
    logical_id: str
    resource: Resource

    @property
    def properties(self) -> dict[str, object]:
        properties: dict[str, object] = self.resource.get("Properties", {})
        return properties


# Yields what is wrong with a resource; nothing if the resource follows the rule of its type.
Rule = Callable[[Case], Iterator[str]]


def deleted(case: Case) -> Iterator[str]:
    """Rule for most types: the resource is deleted with its stack, and leaves nothing."""
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        if case.resource.get(policy, "Delete") != "Delete":
            yield f"{policy} {case.resource[policy]}: it would outlive its stack"


def deleted_by_statement(case: Case) -> Iterator[str]:
    """Rule for a resource with data: the template says that it is deleted, without a default."""
    if "DeletionPolicy" not in case.resource:
        yield "stateful, and no DeletionPolicy"
    yield from deleted(case)


def bucket(case: Case) -> Iterator[str]:
    """Rule for a bucket: it is emptied and deleted, unless the experiment says to keep it."""
    aws = case.experiment.spec.aws
    kept = {"Checkpoints": aws.keep_checkpoints, "Results": aws.keep_results}
    if any(value and case.logical_id.startswith(name) for name, value in kept.items()):
        # Retained, unless the deploy that creates the bucket fails.
        if case.resource.get("DeletionPolicy") != "RetainExceptOnCreate":
            yield "kept by the experiment, and not retained"
        if case.resource.get("UpdateReplacePolicy") != "Retain":
            yield "kept by the experiment, and lost where a deploy replaces it"
        yield from _announces_to_what_goes(case)
        return
    yield from deleted_by_statement(case)
    emptied = [
        r["Properties"]["BucketName"].get("Ref")
        for r in of_type(case.template, "Custom::S3AutoDeleteObjects").values()
    ]
    if case.logical_id not in emptied:
        yield "deleted, and nothing empties it before: the deletion would fail"


def _announces_to_what_goes(case: Case) -> Iterator[str]:
    """Yield the notifications of a kept bucket that would name deleted resources, such as a queue.

    S3 refuses every further notification of a bucket that has such a one.
    """
    announced: dict[str, object] = dict(case.properties.get("NotificationConfiguration", {}))  # type: ignore[call-overload]
    for notification_kind in announced.keys() - {"EventBridgeConfiguration"}:
        yield f"{notification_kind}: would name what is gone while the bucket stays"


def like_its_bucket(case: Case) -> Iterator[str]:
    """Rule for a bucket's policy: it is kept if its bucket is kept, and deleted if not."""
    target = str(collapsed(case.properties["Bucket"])).removeprefix("${").removesuffix("}")
    theirs = case.template["Resources"][target].get("DeletionPolicy", "Delete")
    # A bucket with RetainExceptOnCreate is deleted if the deploy that creates it fails. Its policy,
    # with Retain, then disappears with it.
    wanted = theirs.removesuffix("ExceptOnCreate")
    if case.resource.get("DeletionPolicy", "Delete") != wanted:
        yield f"its bucket's policy is {theirs}"


def queue(case: Case) -> Iterator[str]:
    """Rule for a queue: it is deleted with its stack, and no deploy replaces it.

    A replaced queue would lose its messages.
    """
    yield from deleted_by_statement(case)
    # By CloudFormation's reference, a queue is replaced if one of these properties changes, and not
    # if another one does. A generated name does not change while the logical id stays.
    for name in ("QueueName", "FifoQueue"):
        if name in case.properties:
            yield f"{name}: another value replaces the queue, without its messages"
    # If a deploy shortened the retention, SQS would drop older messages at once.
    if case.properties.get("MessageRetentionPeriod") != MAX_QUEUE_RETENTION_SECONDS:
        yield "MessageRetentionPeriod: not SQS's longest"


def log_group(case: Case) -> Iterator[str]:
    """Rule for a log group: its events expire, and it is deleted with its stack."""
    yield from deleted_by_statement(case)
    days = case.properties.get("RetentionInDays")
    if not isinstance(days, int) or days > MAX_RETENTION_DAYS:
        yield f"RetentionInDays {days}"


def logs_to_an_owned_group(case: Case) -> Iterator[str]:
    """Rule for a function: it logs to a log group of its stack.

    Otherwise Lambda would make a group that no stack owns and that never expires.
    """
    yield from deleted(case)
    target = collapsed(case.properties.get("LoggingConfig", {}))
    if str(target.get("LogGroup", ""))[2:-1] not in of_type(case.template, "AWS::Logs::LogGroup"):
        yield "no LoggingConfig.LogGroup of its stack"


def flow_log(case: Case) -> Iterator[str]:
    """Rule for a flow log: it writes to a log group of its stack."""
    yield from deleted(case)
    group = str(collapsed(case.properties.get("LogGroupName", "")))[2:-1]
    if group not in of_type(case.template, "AWS::Logs::LogGroup"):
        yield "no LogGroupName of its stack"


def cluster(case: Case) -> Iterator[str]:
    """Rule for a cluster: the stack owns the log group that EKS names after the cluster."""
    yield from deleted(case)
    yield from _missing_groups(case, f"/aws/eks/{case.properties['Name']}/cluster")


def add_on(case: Case) -> Iterator[str]:
    """Rule for an EKS add-on: its software is removed with it.

    The stack owns the log groups that the CloudWatch agent names after the cluster.
    """
    yield from deleted(case)
    if case.properties.get("PreserveOnDelete") is not False:
        yield "PreserveOnDelete: its software would stay on the cluster without an owner"
    if case.properties["AddonName"] == "amazon-cloudwatch-observability":
        prefix = f"/aws/containerinsights/{case.experiment.names.cluster}"
        yield from _missing_groups(case, *(f"{prefix}/{log}" for log in INSIGHTS_LOGS))
        if "otelContainerInsights" in str(case.properties.get("ConfigurationValues")):
            yield "OpenTelemetry's log groups, /aws/otel/containerinsights/..., have no owner"


def _missing_groups(case: Case, *names: str) -> Iterator[str]:
    owned = of_type(case.template, "AWS::Logs::LogGroup").values()
    there = {group["Properties"].get("LogGroupName") for group in owned}
    yield from (f"no stack owns the log group {name}" for name in names if name not in there)


def custom(case: Case) -> Iterator[str]:
    """Rule for a custom resource: it is not retained, so that its function is called to undo it."""
    yield from deleted(case)
    if "ServiceToken" not in case.properties:
        yield "no ServiceToken: nobody undoes it"


_DELETED_TYPES = Path(__file__).with_name("deleted_types.yaml").read_text(encoding="utf-8")
RULES: Mapping[str, Rule] = {
    "AWS::S3::Bucket": bucket,
    "AWS::S3::BucketPolicy": like_its_bucket,
    "AWS::SQS::Queue": queue,
    "AWS::Logs::LogGroup": log_group,
    "AWS::Lambda::Function": logs_to_an_owned_group,
    "AWS::EC2::FlowLog": flow_log,
    "AWS::EKS::Cluster": cluster,
    "AWS::EKS::Addon": add_on,
    # Kubernetes objects, which CDK deletes with `kubectl delete`; then a Helm chart's release,
    # which CDK deletes with `helm uninstall`.
    "Custom::AWSCDK-EKS-KubernetesResource": custom,
    "Custom::AWSCDK-EKS-HelmChart": custom,
    "Custom::S3AutoDeleteObjects": custom,
    # At its deletion the capacity controller sets the number of accelerator nodes to zero, and
    # deletes its one-time schedule.
    "Custom::DraftworthDeployment": custom,
    **dict.fromkeys(yaml.safe_load(_DELETED_TYPES), deleted),
}


def violations(experiment: ResolvedNeuron, template: Template) -> list[str]:
    """Return a line for each resource of the template that breaks its type's rule or has none."""
    lines = []
    for logical_id, resource in template["Resources"].items():
        case = Case(
            experiment=experiment, template=template, logical_id=logical_id, resource=resource
        )
        rule = RULES.get(resource["Type"])
        texts = ["no deletion rule is stated for its type"] if rule is None else rule(case)
        lines += [f"{logical_id} ({resource['Type']}): {text}" for text in texts]
    return lines
