"""Operations by name, such as `hours later`, of which tests make sequences for the fake AWS."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from draftworth.records.codec import dump_text
from draftworth.records.servers import ServerState
from lambdas.capacity_controller.custom_resource import DeploymentError, handle_request
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.fakes import FOREIGN_TAGS, RESULTS, FakeAws

BLOCK_STARTS, BLOCK_ENDS = plans.NOW + 2 * plans.HOUR, plans.NOW + 12 * plans.HOUR
PLANS = {
    "first": plans.make_plan(nodes=2),
    "longer": plans.make_plan(nodes=2, deadline_minutes=480),
    "short": plans.make_plan(nodes=2, deadline_minutes=30),
    "patient": plans.make_plan(nodes=2, deadline_minutes=10_000, budget_usd=1e6),
    "poor": plans.make_plan(nodes=2, budget_usd=15.0),
    "other": plans.make_plan(nodes=3, job_name=plans.OTHER_JOB),
    "held": plans.make_plan(nodes=2, job_name=plans.HELD_JOB, hold=True),
    "block": plans.make_plan(
        nodes=1, capacity="capacity_block", reservation_id=plans.BLOCK_ID, deadline_minutes=1440
    ),
}
TRIGGERS = ("ready event", "run event", "deadline event", "heartbeat")
REQUESTS = tuple(f"{kind} {plan}" for kind in ("Create", "Update") for plan in PLANS)


@dataclass
class Scenario:
    """Runs operations, by their names, on a fake AWS and its controller."""

    aws: FakeAws
    requests: int = 0
    last_request: dict[str, Any] | None = None

    def do(self, operation: str) -> None:
        if operation in TRIGGERS:
            self.reconcile(operation)
        elif operation.startswith(("Create", "Update", "Delete")):
            self.request(*operation.split())
        else:
            CHANGES[operation](self.aws)

    def reconcile(self, trigger: str = "heartbeat") -> None:
        with contextlib.suppress(ClientError):
            self.aws.controller.reconcile(trigger, function_arn="arn")

    def request(self, kind: str, plan: str = "first") -> None:
        self.requests += 1
        if kind != "Delete":
            self.aws.report(job=PLANS[plan].job_name)
        self.last_request = {
            "RequestType": kind,
            "RequestId": str(self.requests),
            "ResourceProperties": {"Plan": dump_text(PLANS[plan])},
        }
        self.repeat()

    def repeat(self) -> None:
        if self.last_request is None:
            return
        with contextlib.suppress(DeploymentError):
            handle_request(
                self.last_request,
                self.aws.controller,
                function_arn="arn",
                ends_unix_s=self.aws.now + 60,
            )

    def settle(self) -> None:
        """End all failures of AWS, and let the next heartbeat reconcile."""
        self.aws.failures.clear()
        self.aws.s3_fails = False
        self.aws.interruption = None
        self.reconcile()


def _report(job: str = plans.JOB, **overrides: Any) -> Callable[[FakeAws], None]:
    return lambda aws: aws.report(job=job, **overrides)


def _forget_reports(aws: FakeAws) -> None:
    for where in [where for where in aws.objects if where[1].startswith("control/canary/")]:
        del aws.objects[where]


def _say(make: Callable[..., ServerState], **overrides: Any) -> Callable[[FakeAws], None]:
    return lambda aws: aws.say(make(**{"since_unix_s": aws.now, **overrides}))


def _end(job: str, status: str) -> Callable[[FakeAws], None]:
    return lambda aws: aws.end_run(f"{job}-89abcdef", status=status)


def _later(seconds: float) -> Callable[[FakeAws], None]:
    def later(aws: FakeAws) -> None:
        aws.now += seconds
        aws.reserve(starts=BLOCK_STARTS, ends=BLOCK_ENDS)

    return later


def _set(name: str, value: object) -> Callable[[FakeAws], None]:
    return lambda aws: setattr(aws, name, value)


def _eks_refuses(*codes: str) -> Callable[[FakeAws], None]:
    return lambda aws: aws.fail("UpdateNodegroupConfig", *codes)


CHANGES: dict[str, Callable[[FakeAws], Any]] = {
    "stage target": lambda aws: aws.stage(plans.TARGET),
    "stage draft": lambda aws: aws.stage(plans.DRAFT),
    "stage both": FakeAws.stage,
    "stage a draft that does not fit": lambda aws: aws.stage(plans.DRAFT, vocabulary="bb" * 32),
    "staging gives up": lambda aws: aws.give_up_staging(plans.DRAFT, failed_at_unix_s=aws.now),
    "the canary fails": _report(ok=False, text="no credentials"),
    "the canary is well": _report(),
    "a canary of long ago": _report(reported_at_unix_s=plans.NOW - plans.HOUR),
    "canaries are silent": _forget_reports,
    "a server is healthy": _say(plans.make_server),
    "a server tests": _say(plans.make_server, phase="testing"),
    "a server starts": _say(plans.make_server, phase="starting"),
    "a server gives up": _say(plans.make_server_given_up),
    "a server gave up long ago": _say(
        plans.make_server_given_up, since_unix_s=plans.NOW - plans.HOUR
    ),
    "measure": lambda aws: aws.write(RESULTS, f"runs/{plans.RUN_ID}/blocks/1.result.json", b""),
    "begin": FakeAws.begin_run,
    "begin other": lambda aws: aws.begin_run(plans.OTHER_JOB),
    "complete": _end(plans.JOB, "complete"),
    "fail": _end(plans.JOB, "failed"),
    "complete other": _end(plans.OTHER_JOB, "complete"),
    "a minute later": _later(plans.MINUTE),
    "half an hour later": _later(30 * plans.MINUTE),
    "hours later": _later(3 * plans.HOUR),
    "stop": FakeAws.stop,
    "go on": FakeAws.resume,
    "nodes follow": FakeAws.nodes_follow,
    "a node is lost": lambda aws: setattr(aws, "instances", aws.instances[:-1]),
    "foreign": _set("tags", FOREIGN_TAGS),
    "ours": _set("tags", plans.TAGS),
    "EKS is busy": _eks_refuses("ResourceInUseException"),
    "EKS throttles": _eks_refuses("ThrottlingException", "ThrottlingException"),
    "S3 fails": _set("s3_fails", True),
    "S3 answers": _set("s3_fails", False),
    "size changed by hand": lambda aws: setattr(aws, "desired", 2 - aws.desired % 2),
}
OPERATIONS = (*TRIGGERS, *REQUESTS, "Delete", *CHANGES)
# What can happen during an invocation, which takes minutes at most.
IN_BETWEEN = tuple(o for o in OPERATIONS if "hour" not in o)
