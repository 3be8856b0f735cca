"""AWS in memory: the calls of the controller, and what other programs do in the account.

`test_fakes.py` makes the same calls to this fake and to moto. A request that boto3 refuses is
refused here too. A test can run an action before any call, so that another invocation of the
controller runs between two calls of the first.
"""
# ruff: noqa: N803 - arguments have the names that boto3 gives them

import functools
import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import botocore.session
from botocore.exceptions import ClientError, ParamValidationError
from botocore.validate import ParamValidator

from draftworth.records.checkpoints import failed_key, ready_key
from draftworth.records.codec import dump_record
from draftworth.records.controller_state import State
from draftworth.records.deployment import STOP_KEY, CapacityPlan, ModelRef, canary_key
from draftworth.records.servers import ServerState, server_state_key
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.capacity_controller.controller import Controller
from lambdas.capacity_controller.settings import Settings
from tests.lambdas.capacity_controller import plans

CHECKPOINTS, RESULTS = (f"{holds}-111122223333" for holds in ("checkpoints", "results"))
SETTINGS = Settings(
    checkpoints_bucket=CHECKPOINTS,
    results_bucket=RESULTS,
    topic_arn="arn:aws:sns:us-east-2:123456789012:capacity",
    schedule_group="draftworth-qwen3-32b",
    schedule_role_arn="arn:aws:iam::111122223333:role/scheduler",
)
SERVICES = ("s3", "eks", "autoscaling", "ec2", "scheduler", "sns")
FOREIGN_TAGS = {"draftworth:experiment": "another"}
AUTO_SCALING_GROUP = "eks-group"

Operation = TypeVar("Operation", bound=Callable[..., Any])


def refused(code: str, operation: str = "Operation") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": f"{operation} refused"}}, operation)


def at(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)


@functools.cache
def model_of(service: str, operation: str) -> Any:
    return _models(service).operation_model(operation)


@functools.cache
def _models(service: str) -> Any:
    return _session().get_service_model(service)


@functools.cache
def _session() -> Any:
    """Return a session that all services share, because each one lists all service models."""
    return botocore.session.Session()


def operation(service: str) -> Callable[[Operation], Operation]:
    """Return a decorator: the method answers the operation of `service` that has its name."""

    def decorate(method: Operation) -> Operation:
        name = "".join(part.capitalize() for part in method.__name__.split("_"))

        @functools.wraps(method)
        def call(aws: "FakeAws", **request: Any) -> Any:
            aws.meet(service, name, request)
            return method(aws, **request)

        return call  # type: ignore[return-value]

    return decorate


class FakeAws:
    """All six AWS services and the clock; each client of the controller is this object."""

    def __init__(self) -> None:
        self.now = plans.NOW
        self.log: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.objects: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.written_at_unix_s: dict[tuple[str, str], float] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.instances: list[tuple[str, str]] = []
        # The Auto Scaling group's size, if it was set without EKS; None: it is EKS's.
        self.capacity: int | None = None
        self.activities: list[dict[str, Any]] = []
        self.reservations: list[dict[str, Any]] = []
        self.schedules: dict[str, dict[str, Any]] = {}
        self.sent: list[str] = []
        self.texts: list[str] = []
        self.s3_fails = False
        self.failures: dict[str, list[str | None]] = {}
        self.actions: dict[str, Callable[[], object]] = {}
        self.check_size: Callable[[int], None] = lambda _: None
        self.interruption: tuple[int, Callable[[], None]] | None = None
        self.create_node_group(plans.make_plan())
        self.controller = self.new_controller()

    def new_controller(self) -> Controller:
        clients: dict[str, Any] = dict.fromkeys(SERVICES, self)
        return Controller(
            clients=Clients(**clients),
            settings=SETTINGS,
            log=lambda entry: self.log.append(dict(entry)),
            clock=lambda: self.now,
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def fail(self, operation: str, *codes: str | None) -> None:
        """Let the next calls of an operation fail, one per error code; None: the call succeeds."""
        self.failures[operation] = list(codes)

    def before(self, operation: str, action: Callable[[], object]) -> None:
        """Run an action once, in the middle of an invocation, before its next such operation."""
        self.actions[operation] = action

    def meet(self, service: str, operation: str, request: dict[str, Any]) -> None:
        """Refuse what boto3 refuses, and run the test's action for this call."""
        report = ParamValidator().validate(request, model_of(service, operation).input_shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())
        self.calls.append((operation, request))
        if self.interruption is not None:
            left, interrupt = self.interruption
            self.interruption = (left - 1, interrupt) if left else None
            if not left:
                interrupt()
        if operation in self.actions:
            self.actions.pop(operation)()
        codes = self.failures.get(operation)
        if codes and (code := codes.pop(0)):
            raise refused(code, operation)

    # S3

    @operation("s3")
    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        if self.s3_fails and Key != "control/capacity.json":
            raise refused("SlowDown", "GetObject")
        if (Bucket, Key) not in self.objects:
            raise refused("NoSuchKey", "GetObject")
        body, etag = self.objects[Bucket, Key]
        return {"Body": io.BytesIO(body), "ETag": etag}

    @operation("s3")
    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **more: str) -> dict[str, Any]:
        there, etag = self.objects.get((Bucket, Key)), more.get("IfMatch")
        if etag and there is None:
            raise refused("NoSuchKey", "PutObject")
        if there and ("IfNoneMatch" in more or etag not in (None, there[1])):
            raise refused("PreconditionFailed", "PutObject")
        return {"ETag": self.write(Bucket, Key, Body)}

    def write(self, bucket: str, key: str, body: bytes) -> str:
        """Write an object as another program does; return its ETag, a hash of its bytes."""
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        self.objects[bucket, key] = (body, etag)
        self.written_at_unix_s[bucket, key] = self.now
        return etag

    def get_paginator(self, _: str) -> "FakeAws":
        return self

    def paginate(self, **request: str) -> Iterator[dict[str, Any]]:
        yield self.list_objects_v2(**request)

    @operation("s3")
    def list_objects_v2(self, *, Bucket: str, Prefix: str, Delimiter: str) -> dict[str, Any]:
        if self.s3_fails:
            raise refused("SlowDown", "ListObjectsV2")
        below = [k[len(Prefix) :] for b, k in self.objects if b == Bucket and k.startswith(Prefix)]
        folders = dict.fromkeys(rest.split(Delimiter)[0] for rest in below if Delimiter in rest)
        keys = [f"{Prefix}{rest}" for rest in below if Delimiter not in rest]
        written = {key: self.written_at_unix_s.get((Bucket, key), plans.NOW) for key in keys}
        page = {
            "CommonPrefixes": [{"Prefix": f"{Prefix}{folder}/"} for folder in folders],
            "Contents": [{"Key": key, "LastModified": at(written[key])} for key in keys],
        }
        return {name: entries for name, entries in page.items() if entries}

    # EKS, Auto Scaling, EC2

    def create_node_group(self, plan: CapacityPlan, *, size: int = 0) -> None:
        self.groups[plan.nodegroup_name] = {
            "clusterName": plan.cluster_name,
            "nodegroupName": plan.nodegroup_name,
            "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": size},
            "resources": {"autoScalingGroups": [{"name": AUTO_SCALING_GROUP}]},
            "tags": dict(plan.nodegroup_tags),
            "health": {"issues": []},
            "modifiedAt": at(self.now),
        }

    @property
    def group(self) -> dict[str, Any]:
        return self.groups[plans.make_plan().nodegroup_name]

    @property
    def desired(self) -> int:
        size: int = self.group["scalingConfig"]["desiredSize"]
        return size

    @desired.setter
    def desired(self, size: int) -> None:
        self.group["scalingConfig"] = {**self.group["scalingConfig"], "desiredSize": size}

    @property
    def tags(self) -> dict[str, str]:
        tags: dict[str, str] = self.group["tags"]
        return tags

    @tags.setter
    def tags(self, tags: dict[str, str]) -> None:
        self.group["tags"] = tags

    def _group(self, operation: str, cluster: str, name: str) -> dict[str, Any]:
        group = self.groups.get(name)
        if group is None or group["clusterName"] != cluster:
            raise refused("ResourceNotFoundException", operation)
        return group

    @operation("eks")
    def describe_nodegroup(self, *, clusterName: str, nodegroupName: str) -> dict[str, Any]:
        return {"nodegroup": dict(self._group("DescribeNodegroup", clusterName, nodegroupName))}

    @operation("eks")
    def update_nodegroup_config(
        self, *, clusterName: str, nodegroupName: str, scalingConfig: dict[str, int]
    ) -> dict[str, Any]:
        group = self._group("UpdateNodegroupConfig", clusterName, nodegroupName)
        self.check_size(scalingConfig["desiredSize"])
        group.update({"scalingConfig": scalingConfig, "modifiedAt": at(self.now)})
        self.capacity = None
        return {"update": {"status": "InProgress", "type": "ConfigUpdate"}}

    @operation("autoscaling")
    def describe_auto_scaling_groups(self, *, AutoScalingGroupNames: list[str]) -> dict[str, Any]:
        members = [{"InstanceId": one, "LifecycleState": state} for one, state in self.instances]
        group = {"AutoScalingGroupName": AUTO_SCALING_GROUP, "Instances": members}
        return {"AutoScalingGroups": [group] * AutoScalingGroupNames.count(AUTO_SCALING_GROUP)}

    @operation("autoscaling")
    def describe_scaling_activities(self, **_: Any) -> dict[str, Any]:
        return {"Activities": self.activities}

    @operation("autoscaling")
    def set_desired_capacity(self, *, AutoScalingGroupName: str, DesiredCapacity: int) -> Any:
        """Set the size that `nodes_follow` follows; EKS goes on showing its own."""
        assert AutoScalingGroupName == AUTO_SCALING_GROUP
        self.capacity = DesiredCapacity
        return {}

    @operation("autoscaling")
    def complete_lifecycle_action(self, **_: str) -> dict[str, Any]:
        return {}

    @operation("ec2")
    def describe_capacity_reservations(self, **_: Any) -> dict[str, Any]:
        return {"CapacityReservations": self.reservations}

    # Scheduler and SNS

    @operation("scheduler")
    def create_schedule(self, **request: Any) -> dict[str, Any]:
        if request["Name"] in self.schedules:
            raise refused("ConflictException", "CreateSchedule")
        self.schedules[request["Name"]] = request
        return {"ScheduleArn": "arn"}

    @operation("scheduler")
    def update_schedule(self, **request: Any) -> dict[str, Any]:
        if request["Name"] not in self.schedules:
            raise refused("ResourceNotFoundException", "UpdateSchedule")
        self.schedules[request["Name"]] = request
        return {"ScheduleArn": "arn"}

    @operation("scheduler")
    def delete_schedule(self, *, Name: str, GroupName: str) -> dict[str, Any]:
        if Name not in self.schedules:
            raise refused("ResourceNotFoundException", "DeleteSchedule")
        del self.schedules[Name]
        return {}

    @property
    def schedule(self) -> str | None:
        return next((one["ScheduleExpression"] for one in self.schedules.values()), None)

    @operation("sns")
    def publish(self, *, TopicArn: str, Subject: str, Message: str) -> dict[str, Any]:
        if len(Subject) > 100:
            raise refused("InvalidParameter", "Publish")
        self.sent.append(Subject)
        self.texts.append(Message)
        return {"MessageId": str(len(self.sent))}

    # Actions of other programs

    def stage(
        self,
        *models: ModelRef,
        vocabulary: str | None = plans.VOCABULARY,
        staged_at_unix_s: float = plans.NOW,
    ) -> None:
        for model in models or (plans.TARGET, plans.DRAFT):
            made = plans.make_ready(model, vocabulary=vocabulary)
            ready = replace(made, staged_at_unix_s=staged_at_unix_s)
            self.write(CHECKPOINTS, ready_key(model.model, model.revision), dump_record(ready))

    def give_up_staging(self, model: ModelRef = plans.TARGET, **overrides: Any) -> None:
        body = dump_record(plans.make_failed_model(model, **overrides))
        self.write(CHECKPOINTS, failed_key(model.model, model.revision), body)

    def report(self, *variants: str, job: str = plans.JOB, **overrides: Any) -> None:
        """Write the report of each variant's canary; no `variants`: of all variants of the plan."""
        for variant in variants or plans.VARIANTS:
            fields = {"reported_at_unix_s": self.now, **overrides}
            body = dump_record(plans.make_report(job, variant, **fields))
            self.write(RESULTS, canary_key(job, variant), body)

    def begin_staging(self, *models: ModelRef) -> None:
        for model in models:
            self.write(CHECKPOINTS, f"{model.model}/{model.revision}/_STAGING.json", b"{}")

    def say(self, state: ServerState) -> None:
        """Write a server's state, as the parent process of vLLM does."""
        self.write(RESULTS, server_state_key(state.server), dump_record(state))

    def begin_run(self, job: str = plans.JOB) -> None:
        self.write(RESULTS, f"runs/{job}-89abcdef/journal/0001-0000-started.json", b"")

    def end_run(self, run_id: str = plans.RUN_ID, **overrides: Any) -> None:
        body = dump_record(plans.finished_run(run_id, **overrides))
        self.write(RESULTS, f"runs/{run_id}/run.json", body)

    def stop(self) -> None:
        self.write(RESULTS, STOP_KEY, b"")

    def resume(self) -> None:
        self.objects.pop((RESULTS, STOP_KEY), None)

    def nodes_follow(self) -> None:
        """Let Auto Scaling start or end instances until the desired number is there."""
        size = self.desired if self.capacity is None else self.capacity
        self.instances = [(f"i-{n}", "InService") for n in range(size)]

    def reserve(self, *, starts: float, ends: float, **overrides: Any) -> None:
        """Add a Capacity Block from `starts` to `ends`, Unix times in seconds."""
        fields = {
            "CapacityReservationId": plans.BLOCK_ID,
            "ReservationType": "capacity-block",
            "State": "active" if self.now >= starts else "scheduled",
            "StartDate": at(starts),
            "EndDate": at(ends),
        }
        self.reservations = [{**fields, **overrides}]

    @property
    def state(self) -> State:
        stored = self.controller.document.read()
        assert stored
        return stored.document
