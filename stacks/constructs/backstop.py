"""Builds the backstop: a schedule that sets the node group to zero without the controller."""

import json
from datetime import UTC, datetime, timedelta

from aws_cdk import aws_iam, aws_scheduler
from constructs import Construct

from draftworth.records.deployment import CapacityPlan
from stacks.constructs.roles import allow

# The time that a deploy gets from its synthesis until it calls the capacity controller, which then
# counts the deadline. `plan` assumes 45 minutes at most for this; the rest is for a slow upload of
# the image, and for a user who does not answer CDK's question at once. If a deploy takes longer,
# the backstop comes before the deadline, and may end a run.
LONGEST_DEPLOY_MINUTES = 120
# As often as the capacity controller asks for zero again (decision record 5): EKS refuses the first
# call if it is just updating the node group.
REPEATED_MINUTES = 30
REPEATED_HOURS = 24
UPDATE_SIZE = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"


def backstop_begins(plan: CapacityPlan, *, synthesized_at: datetime) -> datetime:
    """Return when the backstop first asks for zero nodes: after every deadline of this deploy.

    Not at the budget divided by the price: that counts from the first node, which may have waited
    for models and capacity for as long as the deadline allows.
    """
    latest = timedelta(minutes=LONGEST_DEPLOY_MINUTES + plan.deadline_minutes)
    return synthesized_at.astimezone(UTC).replace(second=0, microsecond=0) + latest


def backstop(
    scope: Construct,
    *,
    plan: CapacityPlan,
    nodegroup_arn: str,
    group_name: str,
    role: aws_iam.Role,
    synthesized_at: datetime,
) -> aws_scheduler.CfnSchedule:
    """Return the schedule, and let its role set the size of the node group.

    group_name: the schedule group that it belongs to. role: EventBridge Scheduler calls EKS as it.
    synthesized_at: the time of the synthesis, because a template does not know when it is deployed.

    The logical id holds the time, so that each deploy creates a new schedule and never updates one:
    AWS refuses a `StartDate` in the past, and a rollback would set such a date again. A template
    that is deployed too late to have a backstop is refused for the same reason.
    """
    begins = backstop_begins(plan, synthesized_at=synthesized_at)
    role.add_to_policy(allow("TakeNodesToZero", ["eks:UpdateNodegroupConfig"], [nodegroup_arn]))
    # The universal target takes the names of EKS's parameters with a capital first letter.
    request = {
        "ClusterName": plan.cluster_name,
        "NodegroupName": plan.nodegroup_name,
        "ScalingConfig": {"MinSize": 0, "MaxSize": 1, "DesiredSize": 0},
    }
    schedule = aws_scheduler.CfnSchedule(
        scope,
        f"Backstop{begins:%Y%m%d%H%M}",
        description="The accelerator nodes go to zero, whatever the capacity controller does",
        group_name=group_name,
        schedule_expression=f"rate({REPEATED_MINUTES} minutes)",
        start_date=_utc(begins),
        end_date=_utc(begins + timedelta(hours=REPEATED_HOURS)),
        flexible_time_window=aws_scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
        target=aws_scheduler.CfnSchedule.TargetProperty(
            arn=UPDATE_SIZE,
            role_arn=role.role_arn,
            input=json.dumps(request),
            # A later try would belong to another deploy's nodes.
            retry_policy=aws_scheduler.CfnSchedule.RetryPolicyProperty(
                maximum_event_age_in_seconds=REPEATED_MINUTES * 60
            ),
        ),
    )
    schedule.node.add_dependency(role)
    return schedule


def _utc(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
