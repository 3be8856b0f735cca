"""IAM rights of the capacity controller: read reports, keep its state, set the number of nodes.

Two more rights are granted elsewhere: to write its log (`functions.function_role`), and to publish
to its topic (`capacity_controller.py`).
"""

from aws_cdk import Stack, Token, aws_iam, aws_s3

from draftworth.experiment.naming import RUNS_PREFIX, Names
from draftworth.records import deployment
from draftworth.records.checkpoints import failed_key, ready_key
from draftworth.records.findings import VERDICT_FILE
from draftworth.records.results import RUN_FILE
from draftworth.records.servers import SERVERS_FOLDER
from stacks.constructs.roles import accept, accept_folders, allow, grant

RUN_FILES = tuple(f"{RUNS_PREFIX}*/{name}" for name in (RUN_FILE, VERDICT_FILE))
# The reports of all Jobs and variants, not only of those that the controller's plan names: a deploy
# or rollback does not change the rights and the plan at the same moment, so for a while the rights
# would be for other reports than those in the plan.
REPORTS = (f"{deployment.CANARIES_FOLDER}*", f"{SERVERS_FOLDER}*")
_READ_ONLY = (
    "DescribeAutoScalingGroups, DescribeScalingActivities and DescribeCapacityReservations know no "
    "resources; they only read."
)
_GENERATED = (
    "EKS ends the ARNs of a node group and of its Auto Scaling group with an id that it generates."
)


def grant_rights(
    role: aws_iam.Role,
    *,
    plan: deployment.CapacityPlan,
    checkpoints: aws_s3.IBucket,
    results: aws_s3.IBucket,
    schedule: str,
    scheduler_role: aws_iam.IRole,
) -> None:
    """Give the capacity controller's role its rights, and accept cdk-nag's findings on them.

    schedule: the schedule that ends the nodes at the deadline, as GROUP/NAME.
    scheduler_role: the role that the controller passes to that schedule.
    """
    grant(
        role,
        *_storage_rights(plan, checkpoints, results),
        *_node_rights(role, plan),
        *_schedule_rights(role, schedule, scheduler_role),
    )
    accept_folders(role, results, *RUN_FILES, *REPORTS)
    accept(role, "AwsSolutions-IAM5[Resource::*]", reason=_READ_ONLY)
    accept(role, *_generated_arns(role, plan), reason=_GENERATED)


def _generated_arns(role: aws_iam.Role, plan: deployment.CapacityPlan) -> list[str]:
    stack, arns = Stack.of(role), [*_group_arns(role, plan)]
    names = {stack.account: "<AWS::AccountId>", stack.partition: "<AWS::Partition>"}
    for token, name in names.items():
        if Token.is_unresolved(token):
            arns = [arn.replace(token, name) for arn in arns]
    return [f"AwsSolutions-IAM5[Resource::{arn}]" for arn in arns]


def _group_arns(role: aws_iam.Role, plan: deployment.CapacityPlan) -> tuple[str, str]:
    # The ARN pattern of the node group, and that of its Auto Scaling group `eks-NODE_GROUP-UUID`.
    stack, names = Stack.of(role), Names(experiment=plan.experiment)
    where = f"{stack.region}:{stack.account}"
    nodes = f"eks:{where}:nodegroup/{names.cluster}/{names.accelerator}-*/*"
    scaling = f"autoScalingGroup:*:autoScalingGroupName/eks-{names.accelerator}-*"
    arn = f"arn:{stack.partition}"
    return f"{arn}:{nodes}", f"{arn}:autoscaling:{where}:{scaling}"


def _storage_rights(
    plan: deployment.CapacityPlan, checkpoints: aws_s3.IBucket, results: aws_s3.IBucket
) -> list[aws_iam.PolicyStatement]:
    markers = [
        key(model.model, model.revision) for model in plan.models for key in (ready_key, failed_key)
    ]
    state = [
        results.arn_for_objects(key)
        for key in (deployment.STATE_KEY, deployment.UNREADABLE_STATE_KEY)
    ]
    runs = [results.arn_for_objects(key) for key in (*RUN_FILES, deployment.STOP_KEY, *REPORTS)]
    return [
        allow("ReadMarkers", ["s3:GetObject"], [checkpoints.arn_for_objects(k) for k in markers]),
        allow("ReadRunsAndReports", ["s3:GetObject"], runs),
        allow("KeepState", ["s3:GetObject", "s3:PutObject"], state),
        # The function lists runs. Without this right S3 answers 403 for a missing object, not 404.
        allow(
            "ListAndTellMissingFromDenied",
            ["s3:ListBucket"],
            [checkpoints.bucket_arn, results.bucket_arn],
        ),
    ]


def _node_rights(
    role: aws_iam.Role, plan: deployment.CapacityPlan
) -> list[aws_iam.PolicyStatement]:
    reading = ["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"]
    if plan.reservation_id:
        reading.append("ec2:DescribeCapacityReservations")
    sizing = ["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"]
    nodes, scaling = _group_arns(role, plan)
    return [
        allow("SizeNodeGroup", sizing, [nodes]),
        allow("EndDrains", ["autoscaling:CompleteLifecycleAction"], [scaling]),
        # The ARN alone also matches the groups of an experiment whose name begins with this one's
        # and `-accelerator-`. EKS tags the Auto Scaling groups that it makes.
        allow(
            "EmptyScalingGroup",
            ["autoscaling:SetDesiredCapacity"],
            [scaling],
            {"StringEquals": {"aws:ResourceTag/eks:cluster-name": plan.cluster_name}},
        ),
        allow("LookAtInstances", reading, ["*"]),
    ]


def _schedule_rights(
    role: aws_iam.Role, schedule: str, scheduler_role: aws_iam.IRole
) -> list[aws_iam.PolicyStatement]:
    deadline = Stack.of(role).format_arn(
        service="scheduler", resource="schedule", resource_name=schedule
    )
    actions = ("CreateSchedule", "UpdateSchedule", "DeleteSchedule")
    return [
        allow("ScheduleDeadline", [f"scheduler:{action}" for action in actions], [deadline]),
        allow(
            "LetSchedulerInvoke",
            ["iam:PassRole"],
            [scheduler_role.role_arn],
            {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        ),
    ]
