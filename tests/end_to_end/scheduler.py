"""EventBridge Scheduler as time passes: it invokes the targets of the account's schedules."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from botocore import xform_name

from tests.end_to_end.cloud import Cloud

UNIVERSAL_TARGET = "arn:aws:scheduler:::aws-sdk:"
STEP_MINUTES = 10


def instance_hours(cloud: Cloud, *, hours: float) -> float:
    """Let time pass, with every schedule invoked when it is due; return the hours of instances."""
    paid_minutes = 0
    for _ in range(round(60 * hours) // STEP_MINUTES):
        paid_minutes += STEP_MINUTES * cloud.instances
        cloud.now_unix_s += 60 * STEP_MINUTES
        for schedule in _schedules(cloud):
            if _is_due(schedule, cloud.now_unix_s):
                _invoke(cloud, schedule["Target"])
        cloud.nodes_follow()
    return paid_minutes / 60


def _schedules(cloud: Cloud) -> Iterator[dict[str, Any]]:
    scheduler = cloud.client("scheduler")
    for entry in scheduler.list_schedules()["Schedules"]:
        yield scheduler.get_schedule(Name=entry["Name"], GroupName=entry["GroupName"])


def _is_due(schedule: dict[str, Any], now: float) -> bool:
    """Return whether a `rate(...)` schedule has a time of invocation in the step that ends now."""
    rate = re.fullmatch(r"rate\((\d+) minutes\)", schedule["ScheduleExpression"])
    if rate is None:  # the deadline's schedule, which a broken controller does not handle either
        return False
    period = 60 * int(rate[1])
    first = schedule.get("StartDate", schedule["CreationDate"]).timestamp()
    last = schedule["EndDate"].timestamp() if "EndDate" in schedule else now
    times_before, times = ((t - first) // period for t in (now - 60 * STEP_MINUTES, now))
    return bool(first <= now <= last and times > times_before)


def _invoke(cloud: Cloud, target: dict[str, Any]) -> None:
    request = json.loads(target["Input"])
    if not target["Arn"].startswith(UNIVERSAL_TARGET):
        with contextlib.suppress(Exception):  # Lambda logs it
            cloud.invoke_controller(request)
        return
    service, operation = target["Arn"].removeprefix(UNIVERSAL_TARGET).split(":")
    client = cloud.client(service)
    getattr(client, xform_name(operation[0].upper() + operation[1:]))(**_with_lower_case(request))


def _with_lower_case(value: Any) -> Any:
    """Return EKS's own request for that of a universal target, whose keys begin with capitals."""
    if not isinstance(value, dict):
        return value
    assert all(key[0].isupper() for key in value), value
    return {key[0].lower() + key[1:]: _with_lower_case(item) for key, item in value.items()}
