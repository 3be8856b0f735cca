"""An emulated account with one experiment's node group, and CloudFormation, S3 and clock around it.

S3, EKS, Scheduler, SNS and SQS are moto's. moto makes no Auto Scaling group for a node group, knows
no scaling activities, no drain and no Capacity Blocks, and refuses no change of a node group: those
answers are put into boto3's own pipeline by event hooks, in the shapes of botocore's models.
"""

import functools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.request import HTTPSHandler, Request, build_opener

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from draftworth.records.checkpoints import failed_key, ready_key
from draftworth.records.codec import dump_record, dump_text
from draftworth.records.deployment import STOP_KEY, CapacityPlan, ModelRef, canary_key
from draftworth.records.servers import ServerState, server_state_key
from lambdas.capacity_controller.controller import Controller
from lambdas.capacity_controller.handler import handle
from lambdas.capacity_controller.observing import Clients
from lambdas.capacity_controller.state import Settings, State
from tests.lambdas.capacity_controller import plans
from tests.support.emulator import one_signing_key

CHECKPOINTS, RESULTS = (f"{holds}-111122223333" for holds in ("checkpoints", "results"))
SCHEDULE_GROUP = "draftworth-qwen3-32b"
ROLE_ARN = "arn:aws:iam::111122223333:role/scheduler"
FUNCTION_ARN = "arn:aws:lambda:us-east-2:111122223333:function:capacity"
STACK_ID = "arn:aws:cloudformation:us-east-2:111122223333:stack/draftworth-x/5b918d10"
RESPONSE_URL = (
    "https://cloudformation-custom-resource-response-useast2.s3.us-east-2.amazonaws.com/"
    "arn%3Aaws%3Acloudformation%3Aus-east-2%3A111122223333%3Astack/draftworth-x?X-Amz=x"
)
_SERVICES = ("s3", "eks", "autoscaling", "ec2", "scheduler", "sns", "sqs")

Event = dict[str, Any]
Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


@functools.cache
def _clients() -> dict[str, Any]:
    """Shared: a new client parses its service's model again. Hooks are taken off after each test.

    No retries: a failure that a test plants is met once.
    """
    session, config = boto3.Session(), Config(retries={"total_max_attempts": 1})
    return {name: session.client(name, config=config) for name in _SERVICES}  # type: ignore[call-overload]


class CloudFormation:
    """Receives the answers of the custom resource, as the presigned URL's bucket does.

    The URL is one of CloudFormation's own; `opener` brings what is sent to it here, without TLS.
    """

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.content_types: list[str | None] = []
        self.failures = 0
        self.redirect: str | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fails = outer.failures > 0
                outer.failures -= 1
                if not fails:
                    outer.answers.append(json.loads(body))
                    outer.content_types.append(self.headers["Content-Type"])
                self.send_response(307 if outer.redirect else 503 if fails else 200)
                self.send_header("Location", outer.redirect or "")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on the terminal."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        here = f"127.0.0.1:{self._server.server_port}"
        self.url = RESPONSE_URL

        class ToThisMachine(HTTPSHandler):
            def https_open(self, request: Request) -> HTTPResponse:
                request.host = here
                answer: HTTPResponse = self.do_open(HTTPConnection, request)
                return answer

        self.opener = build_opener(ToThisMachine)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Account:
    """Everything that the controller sees, and what happens to it."""

    def __init__(self, cloudformation: CloudFormation) -> None:
        self.cloudformation = cloudformation
        self.now = plans.NOW
        self.log: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.instances: list[tuple[str, str]] = []
        self.activities: list[dict[str, Any]] = []
        self.reservations: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.remaining_seconds = 300.0
        self.canaries_report = True
        self._requests = 0
        self._hooks: list[tuple[Any, str, Callable[..., Any]]] = []
        made = _clients()
        self.s3, self.eks, self.scheduler = made["s3"], made["eks"], made["scheduler"]
        self.sns, self.sqs = made["sns"], made["sqs"]
        self.clients = Clients(**{n: c for n, c in made.items() if n != "sqs"})
        self._create()
        self._answer_for_auto_scaling()
        self.controller = self.new_controller()

    def new_controller(self) -> Controller:
        return Controller(
            clients=self.clients,
            settings=self.settings,
            log=lambda entry: self.log.append(dict(entry)),
            clock=lambda: self.now,
            sleep=self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _create(self) -> None:
        where = {"LocationConstraint": "us-east-2"}
        for bucket in (CHECKPOINTS, RESULTS):
            self.s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
        self.scheduler.create_schedule_group(Name=SCHEDULE_GROUP)
        topic = self.sns.create_topic(Name="capacity")["TopicArn"]
        self._inbox = self.sqs.create_queue(QueueName="inbox")["QueueUrl"]
        arn = "arn:aws:sqs:us-east-2:123456789012:inbox"
        self.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
        self.settings = Settings(
            checkpoints_bucket=CHECKPOINTS,
            results_bucket=RESULTS,
            topic_arn=topic,
            schedule_group=SCHEDULE_GROUP,
            schedule_role_arn=ROLE_ARN,
        )
        self.create_node_group(plans.make_plan())

    def create_node_group(self, plan: CapacityPlan, **overrides: Any) -> None:
        role = "arn:aws:iam::111122223333:role/nodes"
        if plan.cluster_name not in self.eks.list_clusters()["clusters"]:
            self.eks.create_cluster(name=plan.cluster_name, roleArn=role, resourcesVpcConfig={})
        group: dict[str, Any] = {
            "clusterName": plan.cluster_name,
            "nodegroupName": plan.nodegroup_name,
            "nodeRole": role,
            "subnets": ["subnet-1"],
            "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
            "tags": dict(plan.nodegroup_tags),
        }
        self.eks.create_nodegroup(**{**group, **overrides})

    def _answer_for_auto_scaling(self) -> None:
        self.answer("autoscaling", "DescribeAutoScalingGroups", lambda _: self._groups())
        self.answer(
            "autoscaling", "DescribeScalingActivities", lambda _: {"Activities": self.activities}
        )
        self.answer("autoscaling", "CompleteLifecycleAction", lambda _: {})
        self.answer(
            "ec2",
            "DescribeCapacityReservations",
            lambda _: {"CapacityReservations": self.reservations},
        )
        self._hook(
            "eks",
            "after-call.eks.DescribeNodegroup",
            lambda parsed, **_: parsed.get("nodegroup", {}).update(
                {"health": {"issues": self.issues}}
            ),
        )
        for service in ("eks", "autoscaling", "scheduler", "sns"):
            self._hook(service, "provide-client-params", self._note)

    def _hook(
        self, service: str, event: str, hook: Callable[..., Any], *, first: bool = False
    ) -> None:
        events = getattr(self.clients, service).meta.events
        (events.register_first if first else events.register)(event, hook)
        self._hooks.append((events, event, hook))

    def close(self) -> None:
        for events, event, hook in self._hooks:
            events.unregister(event, hook)

    def _note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        self.calls.append((model.name, dict(params)))

    def _groups(self) -> dict[str, Any]:
        members = [{"InstanceId": i, "LifecycleState": s} for i, s in self.instances]
        return {"AutoScalingGroups": [{"Instances": members}]}

    def answer(self, service: str, operation: str, answer: Answer) -> None:
        """Answer an operation in AWS's place; None leaves it to the emulator."""

        def respond(params: dict[str, Any], **_: Any) -> Any:
            parsed = answer(params)
            return None if parsed is None else (SimpleNamespace(status_code=200), parsed)

        self._hook(service, f"before-call.{service}.{operation}", respond)

    def fail(self, service: str, operation: str, *codes: str | None) -> list[str | None]:
        """Let the next calls fail with these codes, None for one that goes through.

        The answer is what is left of them.
        """
        left = list(codes)

        def respond(**_: Any) -> Any:
            code = left.pop(0) if left else None
            if code is None:
                return None
            error = {"Error": {"Code": code, "Message": f"{operation} failed"}}
            return SimpleNamespace(status_code=400), error

        self._hook(service, f"before-call.{service}.{operation}", respond, first=True)
        return left

    def before(self, service: str, operation: str, action: Callable[[], object]) -> None:
        """Do something once, in the middle of an invocation, just before a call."""
        left = [action]

        def run(**_: Any) -> None:
            if left:
                left.pop()()

        self._hook(service, f"before-call.{service}.{operation}", run, first=True)

    # What happens in AWS

    def stage(
        self,
        *models: ModelRef,
        vocabulary: str | None = plans.VOCABULARY,
        staged_at_unix_s: float = plans.NOW,
    ) -> None:
        for model in models or (plans.TARGET, plans.DRAFT):
            made = plans.make_ready(model, vocabulary=vocabulary)
            ready = dump_record(replace(made, staged_at_unix_s=staged_at_unix_s))
            key = ready_key(model.model, model.revision)
            self.s3.put_object(Bucket=CHECKPOINTS, Key=key, Body=ready)

    def give_up_staging(self, model: ModelRef = plans.TARGET, **overrides: Any) -> None:
        body = dump_record(plans.make_failed_model(model, **overrides))
        key = failed_key(model.model, model.revision)
        self.s3.put_object(Bucket=CHECKPOINTS, Key=key, Body=body)

    def report(self, *variants: str, job: str = plans.JOB, **overrides: Any) -> None:
        """What canaries found; of every variant where none is named."""
        for variant in variants or plans.VARIANTS:
            report = plans.make_report(
                job, variant, **{"reported_at_unix_s": self.now, **overrides}
            )
            key = canary_key(job, variant)
            self.s3.put_object(Bucket=RESULTS, Key=key, Body=dump_record(report))

    def say(self, state: ServerState) -> None:
        """A server's wrapper writes what has changed."""
        key = server_state_key(state.server)
        self.s3.put_object(Bucket=RESULTS, Key=key, Body=dump_record(state))

    def end_run(self, run_id: str = plans.RUN_ID, **overrides: Any) -> None:
        body = dump_record(plans.finished_run(run_id, **overrides))
        self.s3.put_object(Bucket=RESULTS, Key=f"runs/{run_id}/run.json", Body=body)

    def give_verdict(self, body: bytes | None = None, run_id: str = plans.RUN_ID) -> None:
        data = dump_record(plans.make_verdict()) if body is None else body
        self.s3.put_object(Bucket=RESULTS, Key=f"runs/{run_id}/verdict.json", Body=data)

    def stop(self) -> None:
        self.s3.put_object(Bucket=RESULTS, Key=STOP_KEY, Body=b"")

    def instances_follow(self) -> None:
        """What Auto Scaling does some minutes later: as many instances as are desired.

        Then the servers have devices and get healthy, and the measuring pods begin.
        """
        self.instances = [(f"i-{n}", "InService") for n in range(self.desired)]
        for variant in plans.VARIANTS:
            self.say(plans.make_server(variant, since_unix_s=self.now))
        for job in self.state.deployments:
            self.begin_run(job)

    def begin_run(self, job: str) -> None:
        key = f"runs/{job}-89abcdef/journal/0001-0000-started.json"
        self.s3.put_object(Bucket=RESULTS, Key=key, Body=b"")

    # What the function is invoked with

    def handle(self, event: Event, *, controller: Controller | None = None) -> None:
        context = SimpleNamespace(
            invoked_function_arn=FUNCTION_ARN,
            get_remaining_time_in_millis=lambda: int(self.remaining_seconds * 1000),
        )
        handle(
            event,
            context,
            controller=controller or self.controller,
            opener=self.cloudformation.opener,
        )

    def deploy(self, plan: CapacityPlan | None = None, kind: str = "Create", **more: Any) -> Event:
        self._requests += 1
        event = {
            "RequestType": kind,
            "RequestId": f"request-{self._requests}",
            "ResponseURL": self.cloudformation.url,
            "StackId": STACK_ID,
            "LogicalResourceId": "Deployment",
            "ResourceType": "Custom::DraftworthDeployment",
            "ServiceToken": FUNCTION_ARN,
            "ResourceProperties": {
                "ServiceToken": FUNCTION_ARN,
                "Plan": dump_text(plan or plans.make_plan()),
            },
            **({} if kind == "Create" else {"PhysicalResourceId": "draftworth-x/Deployment"}),
            **more,
        }
        if self.canaries_report and kind != "Delete":
            self.report(job=(plan or plans.make_plan()).job_name)
        self.handle(event)
        return event

    def update(self, plan: CapacityPlan) -> Event:
        return self.deploy(plan, "Update")

    def delete(self, plan: CapacityPlan | None = None) -> Event:
        return self.deploy(plan, "Delete")

    def heartbeat(self, *, after: float = 0.0) -> None:
        self.now += after
        self.handle({"trigger": "heartbeat", "plan": dump_text(plans.make_plan())})

    # What came of it

    @property
    def desired(self) -> int:
        return self.scaling()["desiredSize"]

    def scaling(self, plan: CapacityPlan | None = None) -> dict[str, int]:
        plan = plan or plans.make_plan()
        group = self.eks.describe_nodegroup(
            clusterName=plan.cluster_name, nodegroupName=plan.nodegroup_name
        )["nodegroup"]
        scaling: dict[str, int] = group["scalingConfig"]
        return scaling

    @property
    def state(self) -> State:
        stored = self.controller.document.read()
        assert stored
        return stored.document

    @property
    def reason(self) -> str:
        last = self.state.last_decision
        return last.reason if last else "-"

    def decisions(self) -> list[tuple[int | None, str]]:
        return [(e["desired_size"], e["reason"]) for e in self.log if e["event"] == "decision"]

    def mail(self) -> list[dict[str, str]]:
        """Notifications since the last look into the inbox."""
        found: list[dict[str, str]] = []
        while True:
            got = self.sqs.receive_message(QueueUrl=self._inbox, MaxNumberOfMessages=10)
            messages = got.get("Messages", [])
            if not messages:
                return found
            for message in messages:
                body = json.loads(message["Body"])
                found.append({"subject": body["Subject"], "text": body["Message"]})
                self.sqs.delete_message(
                    QueueUrl=self._inbox, ReceiptHandle=message["ReceiptHandle"]
                )

    def subjects(self) -> list[str]:
        return [mail["subject"] for mail in self.mail()]

    def called(self, operation: str) -> list[dict[str, Any]]:
        return [params for name, params in self.calls if name == operation]

    def schedule(self) -> str | None:
        found = self.scheduler.list_schedules(GroupName=SCHEDULE_GROUP)["Schedules"]
        if not found:
            return None
        got = self.scheduler.get_schedule(GroupName=SCHEDULE_GROUP, Name=found[0]["Name"])
        expression: str = got["ScheduleExpression"]
        return expression


def s3_event(bucket: str, key: str, detail_type: str = "Object Created") -> Event:
    """As in "EventBridge event message structure", Amazon S3 User Guide."""
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": detail_type,
        "source": "aws.s3",
        "account": "111122223333",
        "time": "2026-11-20T10:00:00Z",
        "region": "us-east-2",
        "resources": [f"arn:aws:s3:::{bucket}"],
        "detail": {
            "version": "0",
            "bucket": {"name": bucket},
            "object": {
                "key": key,
                "size": 5,
                "etag": "b1946ac92492d2347c6235b4d2611184",
                "sequencer": "617f08299329d189",
            },
            "request-id": "N4N7GDK58NMKJ12R",
            "requester": "123456789012",
            "source-ip-address": "1.2.3.4",
            "reason": "PutObject",
        },
    }


READY_EVENT = s3_event(CHECKPOINTS, "Qwen/Qwen3-32B/main/_READY.json")
RUN_EVENT = s3_event(RESULTS, f"runs/{plans.RUN_ID}/run.json")


def auto_scaling_event(detail_type: str) -> Event:
    """As in "Amazon EC2 Auto Scaling event reference", Amazon EC2 Auto Scaling User Guide."""
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": detail_type,
        "source": "aws.autoscaling",
        "account": "111122223333",
        "time": "2026-11-20T10:00:00Z",
        "region": "us-east-2",
        "resources": ["auto-scaling-group-arn"],
        "detail": {"AutoScalingGroupName": "eks-draftworth-qwen3-32b-accelerator-spot-1"},
    }


def failed_launch(message: str, *, at: float, zone: str = "us-east-2c") -> dict[str, Any]:
    """An entry of an Auto Scaling group's activity history."""
    when = datetime.fromtimestamp(at, UTC)
    return {
        "ActivityId": "9ed5d008-ff94-0b3a-bf41-a72d4f2581f0",
        "AutoScalingGroupName": "eks-group",
        "Description": f"Launching a new EC2 instance.  Status Reason: {message}",
        "Cause": "At 2026-11-20T10:00:00Z an instance was started in response to a difference "
        "between desired and actual capacity, increasing the capacity from 0 to 1.",
        "StartTime": when,
        "EndTime": when,
        "StatusCode": "Failed",
        "StatusMessage": message,
        "Progress": 100,
        "Details": json.dumps({"Subnet ID": "subnet-1", "Availability Zone": zone}),
    }


def started(account: Account) -> None:
    """Deployed, staged, and nodes desired."""
    account.stage()
    account.deploy()
    account.mail()
    account.log.clear()
    account.calls.clear()


@pytest.fixture(scope="session")
def answers() -> Iterator[CloudFormation]:
    server = CloudFormation()
    yield server
    server.close()


@pytest.fixture
def account(answers: CloudFormation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    # Else moto makes thousands of machine images for each test.
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    answers.answers.clear()
    answers.content_types.clear()
    answers.failures = 0
    with one_signing_key(), mock_aws():
        made = Account(answers)
        yield made
        made.close()
