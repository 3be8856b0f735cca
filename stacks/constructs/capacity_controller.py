"""The capacity controller: the function that sizes the accelerator node group, and its triggers."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import cast

import aws_cdk as cdk
from constructs import Construct, IDependable

from charts.shipped import CAPACITY_CONTROLLER
from draftworth.records import deployment
from draftworth.records.checkpoints import FAILED_MARKER, READY_MARKER
from draftworth.records.codec import dump_text
from draftworth.records.results import OBJECT_CREATED, RUN_FILE
from draftworth.records.servers import SERVERS_FOLDER
from stacks.assets import function_code
from stacks.constructs import functions
from stacks.constructs.backstop import backstop
from stacks.constructs.capacity_rights import grant_rights
from stacks.constructs.roles import allow

# The time limit of the function. At a destroy CloudFormation sends it a Delete event, on which the
# function may have to wait while EKS updates the node group.
TIMEOUT_MINUTES = 5
# A deploy calls the function as a custom resource. If CloudFormation never gets its response, the
# deploy fails after this time, not after the default of an hour.
ANSWER_TIMEOUT_MINUTES = 15
MAX_DISPLAY_NAME_CHARACTERS = 100
NODE_GROUP_EVENTS = [
    "EC2 Instance Launch Successful",
    "EC2 Instance Launch Unsuccessful",
    "EC2 Instance Terminate Successful",
    "EC2 Instance-terminate Lifecycle Action",
]


class CapacityController(Construct):
    """The Lambda function that sets the number of accelerator nodes, and all that calls it.

    The construct also holds the function's role, schedules, event rules and notification topic, and
    the custom resource by which each deploy calls it.

    nodegroup_arn: the accelerator node group. synthesized_at: the time of the synthesis.
    deployed_after: constructs that are created before the function's first decision and deleted
        after its last decision, when there are no accelerator nodes left.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        plan: deployment.CapacityPlan,
        nodegroup_arn: str,
        synthesized_at: datetime,
        notify_email: str | None,
        checkpoints: cdk.aws_s3.IBucket,
        results: cdk.aws_s3.IBucket,
        deployed_after: Sequence[IDependable],
    ) -> None:
        super().__init__(scope, id_)
        self._plan = plan
        self._checkpoints = checkpoints
        self._results = results
        self.log_group = functions.owned_log_group(self, "LogGroup")
        self.topic = self._build_topic(notify_email)
        # Not `ScheduleGroup`, which has another logical id than in deployed stacks: CloudFormation
        # would create a second group of the same name before it deletes the first.
        self._schedules = cdk.aws_scheduler.CfnScheduleGroup(
            self, "Schedules", name=f"{plan.cluster_name}-capacity"
        )
        self._scheduler_role = self._build_scheduler_role()
        self._role = self._build_role()
        self.function = self._build_function()
        schedules = [
            self._build_heartbeat(),
            backstop(
                self,
                plan=plan,
                nodegroup_arn=nodegroup_arn,
                group_name=self._schedules.ref,
                role=self._scheduler_role,
                synthesized_at=synthesized_at,
            ),
        ]
        for schedule in schedules:
            schedule.node.add_dependency(*deployed_after)
        self._build_rules()
        self.alarm = self._build_alarm()
        self.deployment = self._build_deployment([*schedules, *deployed_after])

    def _build_topic(self, notify_email: str | None) -> cdk.aws_sns.Topic:
        topic = cdk.aws_sns.Topic(
            self,
            "Notifications",
            display_name=f"draftworth {self._plan.experiment}"[:MAX_DISPLAY_NAME_CHARACTERS],
            enforce_ssl=True,
        )
        if notify_email:
            subscription = cdk.aws_sns_subscriptions.EmailSubscription(notify_email)
            topic.add_subscription(cast(cdk.aws_sns.ITopicSubscription, subscription))
        return topic

    def _build_scheduler_role(self) -> cdk.aws_iam.Role:
        """Return the role with which the schedules of the stack's schedule group call the function.

        Nothing else can assume it.
        """
        principal = cdk.aws_iam.ServicePrincipal(
            "scheduler.amazonaws.com",
            conditions={
                "StringEquals": {
                    "aws:SourceAccount": cdk.Stack.of(self).account,
                    "aws:SourceArn": self._schedules.attr_arn,
                }
            },
        )
        return cdk.aws_iam.Role(
            self,
            "SchedulerRole",
            assumed_by=cast(cdk.aws_iam.IPrincipal, principal),
            description="draftworth capacity schedules",
        )

    def _build_role(self) -> cdk.aws_iam.Role:
        role = functions.function_role(
            self, log_group=self.log_group, description="draftworth capacity controller"
        )
        self.topic.grant_publish(role)
        grant_rights(
            role,
            plan=self._plan,
            checkpoints=self._checkpoints,
            results=self._results,
            schedule=f"{self._schedules.name}/{deployment.DEADLINE_SCHEDULE}",
            scheduler_role=self._scheduler_role,
        )
        return role

    def _build_function(self) -> cdk.aws_lambda.Function:
        function = functions.python_function(
            self,
            description="Size of draftworth's accelerator node group",
            handler="lambdas.capacity_controller.handler.handler",
            code=function_code(CAPACITY_CONTROLLER),
            role=self._role,
            log_group=self.log_group,
            timeout=cdk.Duration.minutes(TIMEOUT_MINUTES),
            environment={
                "CHECKPOINTS_BUCKET": self._checkpoints.bucket_name,
                "RESULTS_BUCKET": self._results.bucket_name,
                "TOPIC_ARN": self.topic.topic_arn,
                "SCHEDULE_GROUP": self._schedules.ref,
                "SCHEDULE_ROLE_ARN": self._scheduler_role.role_arn,
            },
        )
        self._scheduler_role.add_to_policy(
            allow("InvokeController", ["lambda:InvokeFunction"], [function.function_arn])
        )
        return function

    def _build_heartbeat(self) -> cdk.aws_scheduler.CfnSchedule:
        # The heartbeat is a schedule that invokes the function every few minutes. Its event has the
        # plan, whose limits apply if the function's state in S3 cannot be read.
        #
        # EventBridge Scheduler tries to assume the role when a schedule is created, but a new IAM
        # role is usable everywhere only after some seconds. So the schedule is created late: after
        # the function and after the charts, which need minutes. The deployment resource is created
        # after heartbeat and backstop, so no accelerator node ever runs without them.
        target = cdk.aws_scheduler.CfnSchedule.TargetProperty(
            arn=self.function.function_arn,
            role_arn=self._scheduler_role.role_arn,
            input=json.dumps({"trigger": "heartbeat", "plan": dump_text(self._plan)}),
        )
        # Not `Schedule`, whose target for functions also grants all versions of the function.
        heartbeat = cdk.aws_scheduler.CfnSchedule(
            self,
            "Heartbeat",
            group_name=self._schedules.ref,
            schedule_expression=f"rate({deployment.HEARTBEAT_MINUTES} minutes)",
            flexible_time_window=cdk.aws_scheduler.CfnSchedule.FlexibleTimeWindowProperty(
                mode="OFF"
            ),
            target=target,
        )
        heartbeat.node.add_dependency(self._scheduler_role)
        return heartbeat

    def _build_rules(self) -> None:
        created = [OBJECT_CREATED]
        markers = [{"suffix": f"/{name}"} for name in (READY_MARKER, FAILED_MARKER)]
        reports = [{"prefix": folder} for folder in (deployment.CANARIES_FOLDER, SERVERS_FOLDER)]
        self._s3_rule("Staged", self._checkpoints, created, *markers)
        self._s3_rule("Reported", self._results, created, *reports)
        self._s3_rule("RunOver", self._results, created, {"suffix": f"/{RUN_FILE}"})
        self._s3_rule("Stopped", self._results, [*created, "Object Deleted"], deployment.STOP_KEY)
        group = {"prefix": f"eks-{self._plan.nodegroup_name}-"}
        pattern = cdk.aws_events.EventPattern(
            source=["aws.autoscaling"],
            detail_type=NODE_GROUP_EVENTS,
            detail={"AutoScalingGroupName": [group]},
        )
        self._rule("NodesChanged", "Accelerator nodes start, do not start, or end", pattern)

    def _s3_rule(
        self,
        id_: str,
        bucket: cdk.aws_s3.IBucket,
        detail_type: list[str],
        *keys: str | dict[str, str],
    ) -> None:
        detail = {"bucket": {"name": [bucket.bucket_name]}, "object": {"key": [*keys]}}
        pattern = cdk.aws_events.EventPattern(
            source=["aws.s3"], detail_type=detail_type, detail=detail
        )
        self._rule(id_, f"{id_}: the capacity controller reconciles", pattern)

    def _rule(self, id_: str, description: str, pattern: cdk.aws_events.EventPattern) -> None:
        target = cdk.aws_events_targets.LambdaFunction(
            cast(cdk.aws_lambda.IFunction, self.function)
        )
        cdk.aws_events.Rule(
            self,
            id_,
            description=description,
            event_pattern=pattern,
            targets=[cast(cdk.aws_events.IRuleTarget, target)],
        )

    def _build_alarm(self) -> cdk.aws_cloudwatch.Alarm:
        alarm = functions.failure_alarm(
            self,
            "FailureAlarm",
            "The capacity controller fails: accelerator nodes may be up that are not needed. The "
            "function's log has the reason.",
            self.function.metric_errors(
                period=cdk.Duration.minutes(2 * deployment.HEARTBEAT_MINUTES), statistic="Sum"
            ),
            # The alarm fires only after errors in two periods in a row: one failed invocation does
            # no harm if the next one succeeds.
            periods=2,
        )
        alarms_of_this_account = cdk.aws_iam.ServicePrincipal(
            "cloudwatch.amazonaws.com",
            conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}},
        )
        self.topic.grant_publish(alarms_of_this_account)
        action = cdk.aws_cloudwatch_actions.SnsAction(cast(cdk.aws_sns.ITopic, self.topic))
        alarm.add_alarm_action(cast(cdk.aws_cloudwatch.IAlarmAction, action))
        return alarm

    def _build_deployment(self, deployed_after: Sequence[IDependable]) -> cdk.CustomResource:
        # The plan is a property of this resource and not an environment variable of the function: a
        # deploy changes the function minutes before the resources that the plan names, and this
        # resource after them.
        resource = cdk.CustomResource(
            self,
            "Deployment",
            resource_type="Custom::DraftworthDeployment",
            service_token=self.function.function_arn,
            service_timeout=cdk.Duration.minutes(ANSWER_TIMEOUT_MINUTES),
            properties={"Plan": dump_text(self._plan)},
        )
        # With these dependencies a destroy deletes this resource first. At that moment the function
        # decides for the last time, and still needs role, topic and alarm.
        resource.node.add_dependency(self._scheduler_role, self.topic, self.alarm, *deployed_after)
        return resource
