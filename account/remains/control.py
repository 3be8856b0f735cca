"""What steers: stacks, roles, functions, schedules, rules, topics, alarms, the dashboard."""

from __future__ import annotations

from collections.abc import Iterator

from account.prices import monthly_usd
from account.remains.scope import Finder, Remnant, Scope, of_stack, pages, tag_list
from draftworth.experiment.naming import EXPERIMENT_TAG, PROJECT


def stacks(scope: Scope) -> Iterator[Remnant]:
    """Stacks, whatever their state; what they hold goes with them."""
    cloudformation = scope.client("cloudformation")
    for stack in pages(cloudformation, "describe_stacks", "Stacks"):
        tags = tag_list(stack.get("Tags", []))
        name = stack["StackName"]
        if tags.get(EXPERIMENT_TAG, "") == scope.experiment.name or of_stack(scope.names, name):
            yield Remnant(
                kind="stack",
                id=name,
                name=stack["StackStatus"],
                created=stack.get("CreationTime"),
                remove="make destroy EXPERIMENT=FILE",
            )


def roles(scope: Scope) -> Iterator[Remnant]:
    """Roles: IAM's are not in the tag index, so each with the project's prefix is asked."""
    iam = scope.client("iam")
    for role in pages(iam, "list_roles", "Roles"):
        name = role["RoleName"]
        if scope.ours(name, lambda role: tag_list(iam.list_role_tags(RoleName=role)["Tags"]), name):
            yield Remnant(
                kind="role",
                id=name,
                created=role.get("CreateDate"),
                remove=scope.command(f"iam delete-role --role-name {name}")
                + " (after its policies: detach-role-policy, delete-role-policy)",
            )


def functions(scope: Scope) -> Iterator[Remnant]:
    """Lambda functions of the experiment's stacks."""
    lambda_ = scope.client("lambda")
    for function in pages(lambda_, "list_functions", "Functions"):
        name, arn = function["FunctionName"], function["FunctionArn"]
        if scope.ours(name, lambda one: lambda_.list_tags(Resource=one).get("Tags", {}), arn):
            yield Remnant(
                kind="function",
                id=name,
                remove=scope.command(f"lambda delete-function --function-name {name}"),
            )


def schedules(scope: Scope) -> Iterator[Remnant]:
    """Schedule groups of the experiment; with a group go its schedules, deadline included."""
    scheduler = scope.client("scheduler")
    for group in pages(
        scheduler, "list_schedule_groups", "ScheduleGroups", NamePrefix=f"{PROJECT}-"
    ):
        name, arn = group["Name"], group["Arn"]
        if not (_named(scope, name) or scope.ours(name, lambda one: _group_tags(scope, one), arn)):
            continue
        for schedule in pages(scheduler, "list_schedules", "Schedules", GroupName=name):
            yield Remnant(
                kind="schedule",
                id=schedule["Name"],
                created=schedule.get("CreationDate"),
                remove=scope.command(
                    f"scheduler delete-schedule --group-name {name} --name {schedule['Name']}"
                ),
            )
        yield Remnant(
            kind="schedule group",
            id=name,
            created=group.get("CreationDate"),
            remove=scope.command(f"scheduler delete-schedule-group --name {name}"),
        )


def _group_tags(scope: Scope, arn: str) -> dict[str, str]:
    answer = scope.client("scheduler").list_tags_for_resource(ResourceArn=arn)
    return dict(tag_list(answer.get("Tags", [])))


def _named(scope: Scope, name: str) -> bool:
    """A name that is made from the experiment's alone, as the dashboard's and the cluster's."""
    return name == scope.names.prefix


def loose_schedules(scope: Scope) -> Iterator[Remnant]:
    """Schedules of the experiment's stacks in the account's default group."""
    scheduler = scope.client("scheduler")
    for schedule in pages(scheduler, "list_schedules", "Schedules", GroupName="default"):
        name = schedule["Name"]
        if of_stack(scope.names, name) or _named(scope, name):
            yield Remnant(
                kind="schedule",
                id=name,
                created=schedule.get("CreationDate"),
                remove=scope.command(f"scheduler delete-schedule --name {name}"),
            )


def rules(scope: Scope) -> Iterator[Remnant]:
    """EventBridge rules of the experiment's stacks."""
    events = scope.client("events")
    for rule in pages(events, "list_rules", "Rules", NamePrefix=f"{PROJECT}-"):
        name, arn = rule["Name"], rule["Arn"]
        if scope.ours(
            name, lambda one: tag_list(events.list_tags_for_resource(ResourceARN=one)["Tags"]), arn
        ):
            yield Remnant(
                kind="event rule",
                id=name,
                remove=scope.command(f"events delete-rule --name {name}")
                + " (after its targets: remove-targets)",
            )


def topics(scope: Scope) -> Iterator[Remnant]:
    """SNS topics of the experiment's stacks; subscriptions go with them."""
    sns = scope.client("sns")
    for topic in pages(sns, "list_topics", "Topics"):
        arn = topic["TopicArn"]
        name = arn.rsplit(":", 1)[-1]
        if _named(scope, name) or scope.ours(
            name, lambda one: tag_list(sns.list_tags_for_resource(ResourceArn=one)["Tags"]), arn
        ):
            yield Remnant(
                kind="topic", id=name, remove=scope.command(f"sns delete-topic --topic-arn {arn}")
            )


def alarms(scope: Scope) -> Iterator[Remnant]:
    """Alarms of the experiment's stacks."""
    cloudwatch = scope.client("cloudwatch")
    for alarm in pages(
        cloudwatch, "describe_alarms", "MetricAlarms", AlarmNamePrefix=f"{PROJECT}-"
    ):
        name, arn = alarm["AlarmName"], alarm["AlarmArn"]
        if scope.ours(
            name,
            lambda one: tag_list(cloudwatch.list_tags_for_resource(ResourceARN=one)["Tags"]),
            arn,
        ):
            yield Remnant(
                kind="alarm",
                id=name,
                usd_per_month=monthly_usd("alarm"),
                remove=scope.command(f"cloudwatch delete-alarms --alarm-names {name}"),
            )


def dashboards(scope: Scope) -> Iterator[Remnant]:
    """The dashboard, by its name."""
    cloudwatch, ours = scope.client("cloudwatch"), scope.names.dashboard
    listed = pages(cloudwatch, "list_dashboards", "DashboardEntries", DashboardNamePrefix=ours)
    for entry in listed:
        if entry["DashboardName"] == ours:
            yield Remnant(
                kind="dashboard",
                id=ours,
                usd_per_month=monthly_usd("dashboard"),
                remove=scope.command(f"cloudwatch delete-dashboards --dashboard-names {ours}"),
            )


FINDERS = (
    Finder(looks_at="stacks", find=stacks, covers=("cloudformation:stack",)),
    Finder(looks_at="roles", find=roles, covers=("iam:role",)),
    Finder(looks_at="functions", find=functions, covers=("lambda:function",)),
    Finder(looks_at="schedule groups", find=schedules, covers=("scheduler:schedule-group",)),
    Finder(looks_at="schedules", find=loose_schedules, covers=("scheduler:schedule",)),
    Finder(looks_at="event rules", find=rules, covers=("events:rule",)),
    Finder(looks_at="topics", find=topics, covers=("sns",)),
    Finder(looks_at="alarms", find=alarms, covers=("cloudwatch:alarm",)),
    Finder(looks_at="dashboards", find=dashboards, covers=("cloudwatch:dashboard",)),
)
