"""CloudFormation's custom resource: a deployment begins, changes, ends.

One resource for the life of the benchmark stack, whatever Job it holds: its physical id never
changes, so CloudFormation sends no Delete for an old Job. A rolled back deploy is an Update back to
the old plan, whose deployment is still known with its deadline and its spend.

Protocol: "CloudFormation custom resource request and response reference", CloudFormation User
Guide: the answer is a PUT of at most 4096 bytes to a presigned URL; no answer means waiting for the
resource's `ServiceTimeout` and then a failure.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from draftworth.records.capacity import CapacityPlan
from draftworth.records.codec import RecordError, load_record
from lambdas.capacity_controller.controller import Controller, NotZeroError
from lambdas.capacity_controller.state import Deployment, Ledger, State
from lambdas.capacity_controller.store import StaleError

RequestType = Literal["Create", "Update", "Delete"]
MAX_ATTEMPTS = 20
# Of the invocation's time, for the answer.
RESERVE_SECONDS = 20.0
ANSWER_TRIES = 3
ANSWER_TIMEOUT_SECONDS = 10
MAX_REASON_CHARACTERS = 1000


class DeploymentError(Exception):
    """The request cannot be done; CloudFormation shows the message."""


def handle_request(
    event: Mapping[str, Any], controller: Controller, *, function_arn: str, ends_unix_s: float
) -> None:
    """Do one request of CloudFormation; `ends_unix_s` ends the invocation.

    Raises:
        DeploymentError: it cannot be done.
    """
    plan = _plan(event)
    if event["RequestType"] == "Delete":
        _end(event, plan, controller, function_arn, ends_unix_s)
        return
    if plan is None:
        raise DeploymentError("the resource has no Plan")
    _write(
        controller,
        event["RequestId"],
        lambda state: deployed(state, plan, event["RequestType"], now=controller.clock()),
    )
    try:
        controller.look(f"CloudFormation {event['RequestType']}", function_arn=function_arn)
    except Exception as error:  # noqa: BLE001 - logged; the deployment is known, heartbeats go on
        controller.report("no decision at the deploy", error)


def answer(event: Mapping[str, Any], *, error: str | None) -> None:
    """Tell CloudFormation how its request ended.

    Raises:
        OSError: it could not be told.
    """
    stack_name = str(event["StackId"]).split("/")[1]
    body = {
        "Status": "SUCCESS" if error is None else "FAILED",
        "Reason": (error or "done")[:MAX_REASON_CHARACTERS],
        "PhysicalResourceId": event.get("PhysicalResourceId")
        or f"{stack_name}/{event['LogicalResourceId']}",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    request = urllib.request.Request(  # noqa: S310 - the URL is CloudFormation's
        event["ResponseURL"],
        data=json.dumps(body).encode(),
        method="PUT",
        # The URL is signed for an empty content type; urllib would give one of its own.
        headers={"Content-Type": ""},
    )
    for number in range(1, ANSWER_TRIES + 1):
        try:
            urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_SECONDS).close()  # noqa: S310
        except OSError:
            if number == ANSWER_TRIES:
                raise
        else:
            return


def deployed(state: State, plan: CapacityPlan, request: RequestType, *, now: float) -> State:
    """The state with this plan deployed.

    A Job that is known keeps the time of its deploy, and so its deadline: a changed
    `deadline_minutes` moves the deadline, a repeated or rolled back request does not. Only a stack
    that is made anew begins anew. What was spent on a Job is never forgotten.
    """
    known = state.deployments.get(plan.job_name)
    before = state.deployment
    begins = known is None or (request == "Create" and state.status == "ended")
    spent = Ledger(node_seconds=0.0, nodes=0, observed_at_unix_s=now)
    if known:
        spent = known.ledger
    if before is None or state.status == "ended":
        spent = replace(spent, nodes=0, observed_at_unix_s=now)
    elif before.plan.job_name != plan.job_name:
        nodes = before.ledger.nodes
        settled = before.ledger.observed(nodes, asked_for=False, now=now)
        state = state.with_deployment(replace(before, ledger=settled))
        spent = replace(spent, nodes=nodes, observed_at_unix_s=now)
    deployment = Deployment(
        plan=plan,
        deployed_at_unix_s=now if begins or known is None else known.deployed_at_unix_s,
        ledger=spent,
    )
    return replace(state.with_deployment(deployment), status="active")


def _plan(event: Mapping[str, Any]) -> CapacityPlan | None:
    """The plan of the request; a broken one must not keep a stack from being deleted."""
    text = event["ResourceProperties"].get("Plan")
    try:
        return None if text is None else load_record(CapacityPlan, text)
    except RecordError as error:
        if event["RequestType"] == "Delete":
            return None
        raise DeploymentError(f"the resource's Plan is none: {error}") from error


def _write(controller: Controller, request_id: str, change: Callable[[State], State]) -> None:
    """Change the state once for each request, however often it is delivered."""
    for _ in range(MAX_ATTEMPTS):
        stored = controller.store.read()
        if request_id in stored.state.requests:
            return
        try:
            controller.store.write(change(stored.state).with_request(request_id), over=stored)
        except StaleError:
            controller.pause()
        else:
            return
    raise DeploymentError("other invocations kept changing the state; deploy again")


def _end(
    event: Mapping[str, Any],
    plan: CapacityPlan | None,
    controller: Controller,
    function_arn: str,
    ends_unix_s: float,
) -> None:
    """No nodes, and none ever again. Nothing but nodes that stay may keep a stack from going."""
    plans = [] if plan is None else [plan]
    try:
        _write(controller, event["RequestId"], lambda state: replace(state, status="ended"))
        controller.look("CloudFormation Delete", function_arn=function_arn)
        current = controller.store.read().state.deployment
        plans += [] if current is None else [current.plan]
    except Exception as error:  # noqa: BLE001 - logged; what counts comes below
        controller.report("the end was not recorded", error)
    for one in {p.nodegroup_name: p for p in plans}.values():
        try:
            controller.ensure_zero(one, until_unix_s=ends_unix_s - RESERVE_SECONDS)
        except NotZeroError as error:
            raise DeploymentError(
                f"node group {one.cluster_name}/{one.nodegroup_name} is not at zero and would go "
                f"on costing: {error}. Set its desiredSize to 0 (aws eks update-nodegroup-config), "
                "then delete the stack again"
            ) from error
