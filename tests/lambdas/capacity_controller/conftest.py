"""Fixtures: CloudFormation, the events that invoke the capacity controller, and its account."""

import io
import json
from datetime import UTC, datetime
from email.message import Message
from types import SimpleNamespace
from typing import Any
from urllib.request import HTTPSHandler, Request, build_opener
from urllib.response import addinfourl

import pytest

from draftworth.records.codec import dump_record, dump_text
from draftworth.records.controller_state import Deployment
from draftworth.records.deployment import CapacityPlan
from lambdas.capacity_controller.controller import Controller
from lambdas.capacity_controller.handler import handle
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.fakes import CHECKPOINTS, RESULTS, FakeAws

FUNCTION_ARN = "arn:aws:lambda:us-east-2:111122223333:function:capacity"
STACK_ID = "arn:aws:cloudformation:us-east-2:111122223333:stack/draftworth-x/5b918d10"
RESPONSE_URL = (
    "https://cloudformation-custom-resource-response-useast2.s3.us-east-2.amazonaws.com/"
    "arn%3Aaws%3Acloudformation%3Aus-east-2%3A111122223333%3Astack/draftworth-x?X-Amz=x"
)

Event = dict[str, Any]


class CloudFormation(HTTPSHandler):
    """Receives the responses of the custom resource, as the presigned URL's bucket does.

    urllib's own code handles each request; only the connection is replaced.
    """

    def __init__(self) -> None:
        super().__init__()
        self.url = RESPONSE_URL
        self.answers: list[dict[str, Any]] = []
        self.content_types: list[str | None] = []
        self.failures = 0
        self.redirect: str | None = None
        self.opener = build_opener(self)

    def https_open(self, request: Request) -> Any:
        fails = self.failures > 0
        self.failures -= 1
        if not fails:
            assert isinstance(request.data, bytes)
            self.answers.append(json.loads(request.data))
            self.content_types.append(request.get_header("Content-type"))
        headers = Message()
        headers["Location"] = self.redirect or ""
        code = 307 if self.redirect else 503 if fails else 200
        answer = addinfourl(io.BytesIO(), headers, request.full_url, code)
        answer.msg = "as it is"  # type: ignore[attr-defined]
        return answer


class Account(FakeAws):
    """The account in which the function is invoked, and the results of its invocations."""

    def __init__(self) -> None:
        super().__init__()
        self.cloudformation = CloudFormation()
        self.remaining_seconds = 300.0
        self.canaries_report = True
        self._requests = 0

    def instances_follow(self) -> None:
        """Start the desired nodes, have all servers report healthy, and begin the runs."""
        self.nodes_follow()
        for variant in plans.VARIANTS:
            self.say(plans.make_server(variant, since_unix_s=self.now))
        for job in self.state.deployments:
            self.begin_run(job)

    def give_verdict(self, body: bytes | None = None) -> None:
        data = dump_record(plans.make_verdict()) if body is None else body
        self.write(RESULTS, f"runs/{plans.RUN_ID}/verdict.json", data)

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

    def start(self, plan: CapacityPlan | None = None) -> None:
        """Stage every model, then deploy the plan."""
        self.stage()
        self.deploy(plan)

    def update(self, plan: CapacityPlan) -> Event:
        return self.deploy(plan, "Update")

    def delete(self, plan: CapacityPlan | None = None) -> Event:
        return self.deploy(plan, "Delete")

    def heartbeat(self, *, after: float = 0.0) -> None:
        self.now += after
        self.handle({"trigger": "heartbeat", "plan": dump_text(plans.make_plan())})

    @property
    def deployment(self) -> Deployment:
        deployment = self.state.deployment
        assert deployment is not None
        return deployment

    @property
    def paid_seconds(self) -> float:
        return self.deployment.node_time.node_seconds

    @property
    def reason(self) -> str:
        last = self.state.last_decision
        return last.reason if last else "-"

    def size_of(self, plan: CapacityPlan) -> int:
        size: int = self.groups[plan.nodegroup_name]["scalingConfig"]["desiredSize"]
        return size

    @property
    def outcome(self) -> tuple[int, str]:
        return self.desired, self.reason

    def decisions(self) -> list[tuple[int | None, str]]:
        return [(e["desired_size"], e["reason"]) for e in self.log if e["event"] == "decision"]

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.log]

    def mail(self) -> list[dict[str, str]]:
        """Return the notifications since the last call."""
        mails = zip(self.sent, self.texts, strict=True)
        fields = [{"subject": subject, "text": text} for subject, text in mails]
        self.sent.clear()
        self.texts.clear()
        return fields

    def subjects(self) -> list[str]:
        return [mail["subject"] for mail in self.mail()]

    def called(self, operation: str) -> list[dict[str, Any]]:
        return [request for name, request in self.calls if name == operation]


def s3_event(bucket: str, key: str, detail_type: str = "Object Created") -> Event:
    """Return the fields of S3's event that are read ("EventBridge event message structure")."""
    detail = {"version": "0", "bucket": {"name": bucket}, "object": {"key": key, "size": 5}}
    return {"version": "0", "detail-type": detail_type, "source": "aws.s3", "detail": detail}


READY_EVENT = s3_event(CHECKPOINTS, "Qwen/Qwen3-32B/main/_READY.json")
RUN_EVENT = s3_event(RESULTS, f"runs/{plans.RUN_ID}/run.json")


def failed_launch(message: str, *, at: float) -> dict[str, Any]:
    """Return an entry of an Auto Scaling group's activity history."""
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
    }


def started(account: Account) -> None:
    """Stage and deploy, so that nodes are desired; then forget notifications, log and calls."""
    account.start()
    account.mail()
    account.log.clear()
    account.calls.clear()


@pytest.fixture
def account() -> Account:
    return Account()
