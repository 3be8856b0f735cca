"""Handles requests of CloudFormation's custom resource: a deploy, its rollback, its deletion.

The stack has one such resource for all its measuring Jobs. Its physical id never changes, so
CloudFormation sends no Delete for an old Job. A rollback is an Update with the old plan; the state
still has that plan's deployment, with its deadline and its cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from draftworth.records.codec import RecordError, load_record
from draftworth.records.controller_state import Deployment, NodeTime, ServerWait, State
from draftworth.records.deployment import CapacityPlan
from lambdas.capacity_controller.controller import Controller, NotZeroError
from lambdas.capacity_controller.node_group import node_group
from lambdas.s3_document import ConflictError

RequestType = Literal["Create", "Update", "Delete"]
MAX_ATTEMPTS = 20
# Time at the end of the invocation that is reserved for the response to CloudFormation.
RESERVE_SECONDS = 20.0
# How many request ids are kept to recognize repeats; CloudFormation repeats a request a few times.
REMEMBERED_REQUESTS = 20


class DeploymentError(Exception):
    """The request cannot be fulfilled; CloudFormation shows the message."""


def handle_request(
    event: Mapping[str, Any], controller: Controller, *, function_arn: str, ends_unix_s: float
) -> None:
    """Handle a Create, Update or Delete request; raise DeploymentError if it cannot be fulfilled.

    Create and Update record the deploy of the request's plan. If this plan has another node group
    than the previous one, the previous group is scaled to zero; the deploy is refused if instances
    remain there at size zero. Delete scales the node group to zero.
    ends_unix_s: when Lambda ends this invocation.
    """
    plan, kind = _plan(event), event["RequestType"]
    if kind == "Delete":
        _delete(event, plan, controller, function_arn, ends_unix_s)
        return
    if plan is None:
        raise DeploymentError("the resource has no Plan")
    _check_nothing_remains(plan, controller)
    now = controller.clock()
    _update_state(
        controller, event["RequestId"], lambda state: with_deployed(state, plan, kind, now=now)
    )
    _leave_replaced_group(event, plan, controller, ends_unix_s)
    try:
        controller.reconcile(f"CloudFormation {kind}", function_arn=function_arn)
    except Exception as error:  # noqa: BLE001 - logged; the next heartbeat reconciles
        controller.log_failure("no decision at the deploy", error)


def _check_nothing_remains(plan: CapacityPlan, controller: Controller) -> None:
    """Raise DeploymentError if the plan replaces a node group that has instances at size zero.

    The state keeps its record of these instances, so that the mails about them go on after
    CloudFormation's rollback.
    """
    stored = controller.document.read()
    state = stored.document if stored else None
    if state is None or state.remaining is None or state.deployment is None:
        return
    before = state.deployment.plan
    if before.nodegroup_name == plan.nodegroup_name:
        return
    count = node_group(before, controller.clients, since=controller.clock()).instances
    if count != 0:
        raise DeploymentError(
            f"node group {before.cluster_name}/{before.nodegroup_name} has size 0 and "
            f"{'an unknown number of' if count is None else count} instances, which go on costing, "
            "and this deploy would replace it; allowed: none. Wait for them to end, which takes a "
            "quarter of an hour, or end them, then deploy again"
        )


def _leave_replaced_group(
    event: Mapping[str, Any], plan: CapacityPlan, controller: Controller, ends_unix_s: float
) -> None:
    """Scale the previous plan's node group to zero if the new plan has another one.

    CloudFormation deletes the previous group last of all, and calls the update complete even if it
    cannot delete it.
    """
    try:
        text = event.get("OldResourceProperties", {}).get("Plan")
        before = None if text is None else load_record(CapacityPlan, text)
    except RecordError as error:  # another version of this project wrote the previous plan
        controller.log_failure("the plan before the deploy is not known", error)
        return
    if before is not None and before.nodegroup_name != plan.nodegroup_name:
        _to_zero(before, controller, ends_unix_s)


def with_deployed(state: State, plan: CapacityPlan, request: RequestType, *, now: float) -> State:
    """Return the state after the deploy of a plan at the time `now`.

    request: `Create` or `Update`, as CloudFormation calls the deploy.
    A Job that was deployed earlier keeps the time of its deploy, so that only a changed
    `deadline_minutes` moves its deadline, not a repeated request or a rollback. A stack that is
    created again gets a new deadline. The paid node time of an earlier Job is kept in every case.
    """
    earlier, before = state.deployments.get(plan.job_name), state.deployment
    new = NodeTime(node_seconds=0.0, instances=0, observed_at_unix_s=now)
    node_time, nodes_since = earlier.node_time if earlier else new, now
    if before is None or state.status == "ended":
        node_time = replace(node_time, instances=0, observed_at_unix_s=now)
    elif before.plan.job_name != plan.job_name:
        instances = before.node_time.instances
        settled = before.node_time.observed(instances, were_desired=False, now=now)
        state = state.with_deployment(replace(before, node_time=settled))
        node_time = replace(node_time, instances=instances, observed_at_unix_s=now)
        nodes_since = before.servers.nodes_since_unix_s if instances else now
    servers = ServerWait(from_node_seconds=node_time.node_seconds, nodes_since_unix_s=nodes_since)
    deployed_at = now
    if earlier and not (request == "Create" and state.status == "ended"):
        deployed_at = earlier.deployed_at_unix_s
        # A Job that is deployed again gets its whole start-up time again, but a server that was
        # given up stays so. A repeated deploy of the current Job changes neither.
        servers = replace(servers, gave_up=earlier.servers.gave_up)
        if state.status == "active" and state.current == plan.job_name:
            servers = earlier.servers
    deployment = Deployment(
        plan=plan, deployed_at_unix_s=deployed_at, node_time=node_time, servers=servers
    )
    another_group = before is not None and before.plan.nodegroup_name != plan.nodegroup_name
    return replace(
        state.with_deployment(deployment),
        status="active",
        # `_check_nothing_remains` has made sure that no instances remain in a replaced node group.
        remaining=None if another_group else state.remaining,
    )


def _plan(event: Mapping[str, Any]) -> CapacityPlan | None:
    """Return the capacity plan in CloudFormation's request, of which a Delete may have none.

    An invalid plan counts as none in a Delete request; in others it raises DeploymentError.
    """
    text = event["ResourceProperties"].get("Plan")
    try:
        return None if text is None else load_record(CapacityPlan, text)
    except RecordError as error:
        if event["RequestType"] == "Delete":
            return None
        raise DeploymentError(f"the resource's Plan is invalid: {error}") from error


def _update_state(
    controller: Controller, request_id: str, change: Callable[[State], State]
) -> None:
    """Write `change(state)` as the new state, once per request, however often it is delivered.

    request_id: the id that CloudFormation gives the request; the state keeps the last ids.
    It raises DeploymentError if other invocations changed the state at each attempt.
    """
    for _ in range(MAX_ATTEMPTS):
        stored = controller.document.read()
        state = stored.document if stored else State(deployments={})
        if request_id in state.requests:
            return
        requests = (*state.requests, request_id)[-REMEMBERED_REQUESTS:]
        try:
            controller.document.write(replace(change(state), requests=requests), over=stored)
        except ConflictError:
            controller.pause()
        else:
            return
    raise DeploymentError("other invocations kept changing the state; deploy again")


def _delete(
    event: Mapping[str, Any],
    plan: CapacityPlan | None,
    controller: Controller,
    function_arn: str,
    ends_unix_s: float,
) -> None:
    """Record that the experiment has ended, and scale its node groups to zero.

    The node groups are those of `plan` and of the state's current deployment. An error before the
    scaling is only logged. DeploymentError, with which the stack's deletion fails, is raised only
    if a node group is not at size zero shortly before `ends_unix_s`, the end of the invocation.
    plan: the plan in the Delete request; None: the request has no valid plan.
    """
    plans = [] if plan is None else [plan]
    try:
        _update_state(controller, event["RequestId"], lambda state: replace(state, status="ended"))
        controller.reconcile("CloudFormation Delete", function_arn=function_arn)
        stored = controller.document.read()
        current = stored.document.deployment if stored else None
        plans += [] if current is None else [current.plan]
    except Exception as error:  # noqa: BLE001 - logged; the nodes go to zero below
        controller.log_failure("the end was not recorded", error)
    for one in {p.nodegroup_name: p for p in plans}.values():
        _to_zero(one, controller, ends_unix_s)


def _to_zero(plan: CapacityPlan, controller: Controller, ends_unix_s: float) -> None:
    try:
        controller.scale_to_zero(plan, until_unix_s=ends_unix_s - RESERVE_SECONDS)
    except NotZeroError as error:
        raise DeploymentError(
            f"node group {plan.cluster_name}/{plan.nodegroup_name} is not at zero and would go "
            f"on costing: {error}. Set its desiredSize to 0 (aws eks update-nodegroup-config), "
            "then deploy or delete the stack again"
        ) from error
