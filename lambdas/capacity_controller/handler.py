"""The Lambda handler: one event.

Events: CloudFormation's custom resource requests, S3 events by EventBridge, Auto Scaling events by
EventBridge, EventBridge Scheduler's heartbeat and deadline. But for the first, an event says only
"look now". Environment: `settings.Settings`.

The log has one JSON line for each decision, and for whatever failed. An error ends the invocation,
so that Lambda counts it and tries again; the next heartbeat looks anyway.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import boto3
from botocore.config import Config

from draftworth.records.capacity import STATE_KEY, CapacityPlan
from draftworth.records.codec import load_record
from lambdas.capacity_controller.controller import Controller
from lambdas.capacity_controller.deployment import answer, handle_request
from lambdas.capacity_controller.gathering import Clients
from lambdas.capacity_controller.settings import load_settings
from lambdas.capacity_controller.store import StateError

_CONFIG = Config(
    connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4}
)


class Context(Protocol):
    """What is used of Lambda's context object."""

    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the invocation."""


def handler(event: Mapping[str, Any], context: Context) -> None:
    """The entry point of the function."""
    handle(event, context, controller=_controller())


def log_line(entry: Mapping[str, Any]) -> None:
    """One JSON line; Lambda sends it to CloudWatch Logs as it is."""
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


def handle(event: Mapping[str, Any], context: Context, *, controller: Controller) -> None:
    """Do what an event asks for."""
    arn = context.invoked_function_arn
    if "RequestType" not in event:
        _look(event, arn, controller)
        return
    ends = controller.clock() + context.get_remaining_time_in_millis() / 1000
    error: str | None = None
    try:
        handle_request(event, controller, function_arn=arn, ends_unix_s=ends)
    except Exception as failure:  # noqa: BLE001 - CloudFormation must get an answer
        controller.report(f"CloudFormation {event['RequestType']} failed", failure)
        error = f"{type(failure).__name__}: {failure}"
    answer(event, error=error)


def _look(event: Mapping[str, Any], arn: str, controller: Controller) -> None:
    """The heartbeat brings the template's plan, for when the state is lost: only to stop by it."""
    try:
        if not controller.look(trigger_of(event), function_arn=arn) and "plan" in event:
            controller.stop_unknown(
                load_record(CapacityPlan, event["plan"]), f"there is no {STATE_KEY}"
            )
    except StateError as error:
        if "plan" in event:
            controller.stop_unknown(load_record(CapacityPlan, event["plan"]), str(error))
        raise


def trigger_of(event: Mapping[str, Any]) -> str:
    """What invoked the function, for the log."""
    detail = event.get("detail")
    if isinstance(detail, dict) and event.get("source") == "aws.s3":
        return f"{event.get('detail-type')}: {detail.get('object', {}).get('key')}"
    return str(event.get("trigger") or event.get("detail-type") or "unknown event")


@functools.cache
def _controller() -> Controller:
    """Made at the first event, kept while Lambda keeps the process."""
    names = ("s3", "eks", "autoscaling", "ec2", "scheduler", "sns")
    clients: dict[str, Any] = {
        name: boto3.client(name, config=_CONFIG)  # type: ignore[call-overload]
        for name in names
    }
    return Controller(clients=Clients(**clients), settings=load_settings(os.environ), log=log_line)
