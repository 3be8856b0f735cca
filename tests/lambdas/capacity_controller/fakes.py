"""AWS in memory, for thousands of events a second. What it answers, moto answers in other tests.

Every call can be interrupted: that is how another invocation gets in between two calls of this one.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from draftworth.records.deployment import CapacityPlan
from lambdas.capacity_controller.controller import Controller
from lambdas.capacity_controller.observing import Clients
from lambdas.capacity_controller.state import Settings
from tests.lambdas.capacity_controller.plans import NOW, TAGS, make_plan

CHECKPOINTS, RESULTS = "checkpoints", "results"
FOREIGN_TAGS = {"draftworth:experiment": "another"}


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "refused"}}, "Operation")


class FakeAws:
    """All six services and the clock."""

    def __init__(self) -> None:
        self.now = NOW
        self.objects: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.written_at_unix_s: dict[str, float] = {}
        self.desired = 0
        self.modified_at_unix_s: float | None = NOW
        self.instances = 0
        self.tags = TAGS
        self.reservation: dict[str, Any] | None = None
        self.schedule: str | None = None
        self.schedule_input = ""
        self.sent: list[str] = []
        self.texts: list[str] = []
        self.log: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.s3_fails = False
        self.writes_fail = False
        self.failing_reads = 0
        self.asked: Callable[[int], None] = lambda _: None
        self.interruption: tuple[int, Callable[[], None]] | None = None
        self._etags = map(str, itertools.count())
        services = ("s3", "eks", "autoscaling", "ec2", "scheduler", "sns")
        fakes: dict[str, Any] = dict.fromkeys(services, self)
        self.clients = Clients(**fakes)
        self.controller = Controller(
            clients=self.clients,
            settings=Settings(
                checkpoints_bucket=CHECKPOINTS,
                results_bucket=RESULTS,
                topic_arn="topic",
                schedule_group="group",
                schedule_role_arn="role",
            ),
            log=lambda entry: self.log.append(dict(entry)),
            clock=lambda: self.now,
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _called(self) -> None:
        if self.interruption is None:
            return
        left, action = self.interruption
        self.interruption = (left - 1, action) if left else None
        if not left:
            action()

    # S3

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        self._called()
        self.failing_reads -= 1
        if self.failing_reads >= 0:
            raise refused("SlowDown")
        if self.s3_fails and Key != "control/capacity.json":
            raise refused("SlowDown")
        if (Bucket, Key) not in self.objects:
            raise refused("NoSuchKey")
        body, etag = self.objects[Bucket, Key]
        return {"Body": io.BytesIO(body), "ETag": etag}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **more: str) -> dict[str, Any]:  # noqa: N803
        self._called()
        if self.writes_fail:
            raise refused("AccessDenied")
        there = self.objects.get((Bucket, Key))
        if "IfNoneMatch" in more and there:
            raise refused("PreconditionFailed")
        if "IfMatch" in more and (there is None or there[1] != more["IfMatch"]):
            raise refused("PreconditionFailed")
        self.objects[Bucket, Key] = (Body, next(self._etags))
        return {"ETag": self.objects[Bucket, Key][1]}

    def get_paginator(self, _: str) -> FakeAws:
        return self

    def paginate(self, *, Bucket: str, Prefix: str, Delimiter: str) -> Iterator[dict[str, Any]]:  # noqa: N803
        self._called()
        if self.s3_fails:
            raise refused("SlowDown")
        below = [k[len(Prefix) :] for b, k in self.objects if b == Bucket and k.startswith(Prefix)]
        folders = dict.fromkeys(rest.split(Delimiter)[0] for rest in below if Delimiter in rest)
        yield {
            "CommonPrefixes": [{"Prefix": f"{Prefix}{folder}/"} for folder in folders],
            "Contents": [
                {"Key": f"{Prefix}{rest}", "LastModified": self._written_at(f"{Prefix}{rest}")}
                for rest in below
                if Delimiter not in rest
            ],
        }

    def _written_at(self, key: str) -> datetime:
        return datetime.fromtimestamp(self.written_at_unix_s.get(key, NOW), UTC)

    # EKS, Auto Scaling, EC2

    def describe_nodegroup(self, **_: str) -> dict[str, Any]:
        self._called()
        return {
            "nodegroup": {
                "scalingConfig": {"desiredSize": self.desired},
                "resources": {"autoScalingGroups": [{"name": "eks-group"}]},
                "tags": self.tags,
                "health": {"issues": []},
                **self._modified(),
            }
        }

    def _modified(self) -> dict[str, datetime]:
        at = self.modified_at_unix_s
        return {} if at is None else {"modifiedAt": datetime.fromtimestamp(at, UTC)}

    def update_nodegroup_config(self, *, scalingConfig: dict[str, int], **_: str) -> None:  # noqa: N803
        self._called()
        if self.refusals:
            raise refused(self.refusals.pop(0))
        self.asked(scalingConfig["desiredSize"])
        self.desired = scalingConfig["desiredSize"]
        self.modified_at_unix_s = self.now

    def describe_auto_scaling_groups(self, **_: Any) -> dict[str, Any]:
        self._called()
        members = [
            {"InstanceId": f"i-{n}", "LifecycleState": "InService"} for n in range(self.instances)
        ]
        return {"AutoScalingGroups": [{"Instances": members}]}

    def describe_scaling_activities(self, **_: Any) -> dict[str, Any]:
        return {"Activities": []}

    def describe_capacity_reservations(self, **_: Any) -> dict[str, Any]:
        self._called()
        return {"CapacityReservations": [self.reservation] if self.reservation else []}

    # Scheduler and SNS

    def update_schedule(self, **request: Any) -> None:
        self._called()
        if self.schedule is None:
            raise refused("ResourceNotFoundException")
        self.schedule = request["ScheduleExpression"]
        self.schedule_input = request["Target"]["Input"]

    def create_schedule(self, **request: Any) -> None:
        self._called()
        if self.schedule is not None:
            raise refused("ConflictException")
        self.schedule = request["ScheduleExpression"]
        self.schedule_input = request["Target"]["Input"]

    def delete_schedule(self, **_: str) -> None:
        self._called()
        if self.schedule is None:
            raise refused("ResourceNotFoundException")
        self.schedule = None

    def publish(self, *, Subject: str, Message: str, **_: str) -> None:  # noqa: N803
        self._called()
        self.sent.append(Subject)
        self.texts.append(Message)

    # Changes in AWS

    def reserve(self, *, starts: float, ends: float) -> None:
        self.reservation = {
            "State": "active" if self.now >= starts else "scheduled",
            "StartDate": datetime.fromtimestamp(starts, UTC),
            "EndDate": datetime.fromtimestamp(ends, UTC),
        }

    def plan(self, **overrides: Any) -> CapacityPlan:
        return make_plan(**overrides)
