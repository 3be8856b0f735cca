"""The capacity controller, when everything that it reads is hostile or fails.

The rule: whatever bytes the objects hold that the function reads, and whichever of its reads fail,
the desired size of the node group is zero after the deadline. The one exception: a node group that
cannot be shown to be the project's own is not changed, and a mail says so.
"""

import contextlib
import io
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from hypothesis import example, given
from hypothesis import strategies as st

from draftworth.records.checkpoints import failed_key, ready_key
from draftworth.records.codec import dump_record, dump_text
from draftworth.records.deployment import STATE_KEY, STOP_KEY, UNREADABLE_STATE_KEY, canary_key
from draftworth.records.servers import server_state_key
from lambdas.capacity_controller.controller import NotZeroError
from lambdas.capacity_controller.handler import handle
from tests.hostile.fuzzing import VALUES, Place, bounded, places, tries
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.fakes import CHECKPOINTS, FOREIGN_TAGS, RESULTS, FakeAws
from tests.lambdas.capacity_controller.scenarios import Scenario

PLAN = plans.make_plan()
RUN_KEY = f"runs/{plans.RUN_ID}/run.json"
OTHER_RUN_KEY = f"runs/{plans.JOB}-ffffffff/run.json"
KEYS = {
    "state": (RESULTS, STATE_KEY),
    "told": (RESULTS, UNREADABLE_STATE_KEY),
    "run": (RESULTS, RUN_KEY),
    "other run": (RESULTS, OTHER_RUN_KEY),
    "verdict": (RESULTS, f"runs/{plans.RUN_ID}/verdict.json"),
    "stop": (RESULTS, STOP_KEY),
    "target": (CHECKPOINTS, ready_key(plans.TARGET.model, plans.TARGET.revision)),
    "draft": (CHECKPOINTS, ready_key(plans.DRAFT.model, plans.DRAFT.revision)),
    "given up": (CHECKPOINTS, failed_key(plans.DRAFT.model, plans.DRAFT.revision)),
    "canary": (RESULTS, canary_key(plans.JOB, plans.VARIANTS[0])),
    "server": (RESULTS, server_state_key(plans.SERVERS[0])),
}
NOT_STATE = tuple(name for name in KEYS if name != "state")
FAILURES: dict[str, Exception] = {
    "denied": ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Read"),
    "conflict": ClientError({"Error": {"Code": "PreconditionFailed", "Message": "no"}}, "Write"),
    "throttled": ClientError({"Error": {"Code": "SlowDown", "Message": "later"}}, "Read"),
    "not an answer": ClientError({}, "Read"),
    "no connection": EndpointConnectionError(endpoint_url="https://s3"),
    "timeout": ReadTimeoutError(endpoint_url="https://s3"),
    "a shape nobody knows": KeyError("StartDate"),
    "a type nobody knows": TypeError("'NoneType' object is not subscriptable"),
    "not text": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "too deep": RecursionError("maximum recursion depth exceeded"),
    "no memory": MemoryError(),
}
# AWS operations that may fail in these tests: none decides whether the nodes are the experiment's.
OPERATIONS = (
    "paginate",
    "describe_auto_scaling_groups",
    "describe_scaling_activities",
    "describe_capacity_reservations",
)
DEEP = b"[" * 100_000 + b"]" * 100_000


class Endless(io.RawIOBase):
    """The body of an S3 object that has no end; it must be read with a limit."""

    def read(self, size: int = -1, /) -> bytes:
        assert size > 0, "read without a limit"
        return b" " * size


class BreaksOff(io.RawIOBase):
    """The body of an S3 object whose transfer ends with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read(self, size: int = -1, /) -> bytes:
        raise self.error


@dataclass
class Hostility:
    """The faults of one test. An object has its name in `KEYS`, a failure its name in `FAILURES`.

    contents: what objects hold. failing_keys: the failure of an object's GET.
    breaking_off: the failure of an object's transfer. failing_operations: that of an AWS operation.
    endless: the objects without an end. writes_fail: the failure of each write; empty: none.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    failing_keys: dict[str, str] = field(default_factory=dict)
    breaking_off: dict[str, str] = field(default_factory=dict)
    failing_operations: dict[str, str] = field(default_factory=dict)
    endless: frozenset[str] = frozenset()
    writes_fail: str = ""


class HostileAws(FakeAws):
    """The fake AWS of the controller's tests, with faults that a test adds."""

    hostility = Hostility()

    def make_hostile(self, hostility: Hostility) -> None:
        self.hostility = hostility
        for name, content in hostility.contents.items():
            self.objects[KEYS[name]] = (content, "etag")

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        names = [name for name, key in KEYS.items() if key == (Bucket, Key)]
        name = names[0] if names else ""
        if name in self.hostility.failing_keys:
            raise FAILURES[self.hostility.failing_keys[name]]
        if name in self.hostility.endless:
            return {"Body": Endless(), "ETag": "etag"}
        if name in self.hostility.breaking_off:
            failure = FAILURES[self.hostility.breaking_off[name]]
            return {"Body": BreaksOff(failure), "ETag": "etag"}
        return super().get_object(Bucket=Bucket, Key=Key)

    def put_object(self, **request: Any) -> dict[str, Any]:
        if self.hostility.writes_fail:
            raise FAILURES[self.hostility.writes_fail]
        return super().put_object(**request)


def _failing(operation: str) -> Any:
    """Return a method that answers as the fake does, unless the test makes the operation fail."""
    real = getattr(FakeAws, operation)

    def answer(self: HostileAws, **request: Any) -> Any:
        if failure := self.hostility.failing_operations.get(operation):
            raise FAILURES[failure]
        return real(self, **request)

    return answer


for _operation in (*OPERATIONS, "describe_nodegroup", "publish"):
    setattr(HostileAws, _operation, _failing(_operation))


def with_nodes_up() -> HostileAws:
    aws = HostileAws()
    scenario = Scenario(aws=aws)
    begun = ("nodes follow", "a server is healthy", "begin")
    for operation in ("Create first", "stage both", "ready event", *begun):
        scenario.do(operation)
    assert aws.desired == 2
    heartbeat(aws)
    return aws


def heartbeat(aws: FakeAws, *, after_seconds: float = 0.0) -> None:
    """Invoke the function as the schedule does; as in Lambda, an error ends only this call."""
    aws.now += after_seconds
    event = {"trigger": "heartbeat", "plan": dump_text(plans.make_plan(nodes=2))}
    context = SimpleNamespace(
        invoked_function_arn="arn", get_remaining_time_in_millis=lambda: 300_000
    )
    with contextlib.suppress(Exception):
        handle(event, context, controller=aws.controller)


def mutated(document: bytes) -> st.SearchStrategy[bytes]:
    """Draw a JSON document with one value replaced or removed."""

    def change(path: Place, new: Any, action: str) -> bytes:
        changed = json.loads(document)
        parent = changed
        for part in path[:-1]:
            parent = parent[part]
        if action == "drop":
            del parent[path[-1]]
        else:
            parent[path[-1]] = new
        return json.dumps(changed).encode()

    paths = st.sampled_from([*places(json.loads(document))])
    return st.builds(change, paths, VALUES, st.sampled_from(["set", "drop"]))


def state_of(aws: FakeAws) -> bytes:
    return aws.objects[KEYS["state"]][0]


ANY_BYTES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"", b"{}", b"null", DEEP, b'{"a":' * 50_000, b"9" * 5000, b" " * 2**21]),
    st.builds(lambda v: json.dumps(v).encode(), VALUES),
)
CONTENTS = {
    "run": mutated(dump_record(plans.finished_run())),
    "other run": mutated(dump_record(plans.finished_run(f"{plans.JOB}-ffffffff"))),
    "verdict": mutated(dump_record(plans.make_verdict())),
    "stop": ANY_BYTES,
    "told": ANY_BYTES,
    "target": mutated(dump_record(plans.make_ready(plans.TARGET))),
    "draft": mutated(dump_record(plans.make_ready(plans.DRAFT))),
    "given up": mutated(dump_record(plans.make_failed_model(plans.DRAFT))),
    "canary": mutated(dump_record(plans.make_report())),
    "server": mutated(dump_record(plans.make_server_given_up())),
    "state": mutated(state_of(with_nodes_up())),
}


@st.composite
def hostilities(draw: st.DrawFn, keys: tuple[str, ...] = tuple(KEYS)) -> Hostility:
    def some(names: tuple[str, ...]) -> list[str]:
        return draw(st.lists(st.sampled_from(names), unique=True, max_size=3))

    def failing(names: tuple[str, ...]) -> dict[str, str]:
        return {name: draw(st.sampled_from(list(FAILURES))) for name in some(names)}

    return Hostility(
        contents={name: draw(st.one_of(ANY_BYTES, CONTENTS[name])) for name in some(keys)},
        failing_keys=failing(keys),
        breaking_off=failing(keys),
        failing_operations=failing(OPERATIONS),
        endless=frozenset(some(keys)),
        writes_fail=draw(st.sampled_from(["", "denied", "conflict"])),
    )


def far_integer(name: str) -> Hostility:
    body = dump_record(plans.finished_run()).replace(b'"target_interval_width":', b'"more":1,"x":')
    return Hostility(contents={name: body.replace(b":1,", b":" + b"9" * 400 + b",")})


def state_from_the_future() -> bytes:
    state = json.loads(state_of(with_nodes_up()))
    (deployment,) = state["deployments"].values()
    deployment["deployed_at_unix_s"] += 10 * 365 * 24 * 3600
    return json.dumps(state).encode()


HEALTHY_FOR_EVER = dump_record(plans.make_server(since_unix_s=4e9))


@tries(1_700)
@given(hostility=hostilities())
@example(hostility=Hostility(contents={"run": DEEP}))
@example(hostility=Hostility(contents={"target": DEEP}))
@example(hostility=far_integer("run"))
@example(hostility=far_integer("target"))
@example(hostility=Hostility(endless=frozenset(KEYS)))
@example(hostility=Hostility(failing_keys=dict.fromkeys(KEYS, "denied")))
@example(hostility=Hostility(breaking_off={"state": "timeout"}, writes_fail="denied"))
@example(hostility=Hostility(failing_operations=dict.fromkeys(OPERATIONS, "no memory")))
@example(hostility=Hostility(writes_fail="denied"))
@example(hostility=Hostility(failing_keys={"state": "throttled"}))
@example(hostility=Hostility(contents={"state": state_from_the_future()}))
@example(hostility=Hostility(contents={"server": HEALTHY_FOR_EVER}))
@example(hostility=Hostility(writes_fail="conflict"))
def test_after_the_deadline_the_size_is_zero(hostility: Hostility) -> None:
    with bounded():
        aws = with_nodes_up()
        aws.make_hostile(hostility)
        heartbeat(aws, after_seconds=2 * plans.MINUTE)
        heartbeat(aws, after_seconds=PLAN.deadline_minutes * plans.MINUTE)
        assert aws.desired == 0
        for entry in aws.log:
            assert len(json.dumps(entry)) < 20_000
        if aws.objects[KEYS["state"]][1] != "etag":
            assert len(state_of(aws)) < 2**20


@tries(1_000)
@given(hostility=hostilities())
@example(hostility=far_integer("draft"))
@example(hostility=Hostility(contents={"state": b"{}"}))
@example(hostility=Hostility(breaking_off={"state": "timeout"}, writes_fail="denied"))
@example(hostility=Hostility(failing_keys={"state": "throttled"}))
def test_bytes_and_failures_alone_end_no_run(hostility: Hostility) -> None:
    """Only `run.json` of the Job's own run and `control/stop` end a run; other objects do not."""
    for name in ("run", "other run", "stop"):
        hostility.contents.pop(name, None)
    hostility.endless -= {"run", "other run"}
    hostility.breaking_off = {n: "timeout" for n in hostility.breaking_off if "run" not in n}
    hostility.failing_operations.pop("describe_capacity_reservations", None)
    aws = with_nodes_up()
    # Leave out valid records: one of another model, for example, rightly means that the wanted
    # model is not staged.
    hostility.contents = {n: c for n, c in hostility.contents.items() if not _is_record(c)}
    aws.make_hostile(hostility)
    if "stop" in hostility.endless | set(hostility.breaking_off):
        return
    heartbeat(aws, after_seconds=2 * plans.MINUTE)
    assert aws.desired == 2


def _is_record(content: bytes) -> bool:
    return content.startswith(b'{"schema"')


def test_an_invented_log_is_quoted_as_few_lines() -> None:
    aws = with_nodes_up()
    lines = tuple(f"{number}\x1b[2J\r\n\u202e{'x' * 9_000}" for number in range(100))
    state = dump_record(plans.make_server_given_up(last_lines=lines, reason="\x07" * 5_000))
    aws.make_hostile(Hostility(contents={"server": state}))
    heartbeat(aws)
    assert aws.desired == 0
    mail = aws.texts[-1]
    assert "99\\x1b[2J" in mail
    assert len(mail.encode()) < 20_000
    assert all(line.isprintable() for line in mail.split("\n"))


VERDICT = json.loads(dump_record(plans.make_verdict()))
LONG = f"\x1b[2J\r\n\u202e{'x' * 9_000}"
HOSTILE_VERDICTS = {
    "control characters": {"headline": LONG, "notes": [LONG] * 50},
    "a million sentences": {"notes": ["pays"] * 100_000},
    "another schema": {"schema": "draftworth.verdict/999"},
    "another judgement": {"findings": [{**VERDICT["findings"][0], "judgement": LONG}]},
    "a key more": {LONG: LONG},
    "another run": {"run_id": LONG},
    "10 MB": {"headline": "x" * 10_000_000},
}


@pytest.mark.parametrize("changed", HOSTILE_VERDICTS.values(), ids=HOSTILE_VERDICTS)
def test_a_hostile_verdict_is_mailed_as_few_lines(
    changed: dict[str, Any],
) -> None:
    end_with_verdict(Hostility(contents={"verdict": json.dumps({**VERDICT, **changed}).encode()}))


@pytest.mark.parametrize("failure", FAILURES)
def test_an_unreadable_verdict_keeps_no_node_or_mail(failure: str) -> None:
    for how in ("failing_keys", "breaking_off"):
        end_with_verdict(Hostility(**{how: {"verdict": failure}}))  # type: ignore[arg-type]
    end_with_verdict(Hostility(endless=frozenset({"verdict"})))


def end_with_verdict(hostility: Hostility) -> None:
    """Complete the run, and check that no node stays and that the mail is short and printable.

    hostility: the faults of the verdict's file, of which the mail has a few lines.
    """
    aws = with_nodes_up()
    aws.make_hostile(hostility)
    aws.objects[KEYS["run"]] = (dump_record(plans.finished_run()), "etag")
    heartbeat(aws)
    assert aws.desired == 0
    mail = aws.texts[-1]
    assert f"Reason: run {plans.RUN_ID} is complete" in mail
    assert len(mail.encode()) < 20_000
    assert all(line.isprintable() for line in mail.split("\n"))


@pytest.mark.parametrize("field", ["job_name", "variant"])
def test_anothers_report_is_no_canary_of_ours(field: str) -> None:
    aws = HostileAws()
    scenario = Scenario(aws=aws)
    scenario.do("Create first")
    scenario.do("stage both")
    good_report = plans.make_report()
    for report, nodes in ((plans.make_report(**{field: "another"}), 0), (good_report, 2)):
        aws.objects[KEYS["canary"]] = (dump_record(report), "e")
        heartbeat(aws)
        assert aws.desired == nodes


@pytest.mark.parametrize("failure", FAILURES)
def test_an_unreadable_node_group_is_mailed_daily(failure: str) -> None:
    aws = with_nodes_up()
    aws.make_hostile(Hostility(failing_operations={"describe_nodegroup": failure}))
    aws.sent.clear()
    heartbeat(aws, after_seconds=PLAN.deadline_minutes * plans.MINUTE)
    for _ in range(71):
        heartbeat(aws, after_seconds=plans.HOUR)
    assert aws.desired == 2
    assert aws.sent == ["draftworth qwen3-32b: the node group cannot be read"] * 3
    aws.make_hostile(Hostility())
    heartbeat(aws)
    assert aws.desired == 0
    aws.instances = []
    heartbeat(aws, after_seconds=plans.HOUR)
    assert aws.sent[-1] == "draftworth qwen3-32b: nodes are gone"


def test_a_flickering_node_group_multiplies_no_mail() -> None:
    aws = with_nodes_up()
    heartbeat(aws, after_seconds=PLAN.deadline_minutes * plans.MINUTE)
    aws.sent.clear()
    for number in range(24 * 6):
        failing = {"describe_nodegroup": "throttled"} if number % 2 else {}
        aws.make_hostile(Hostility(failing_operations=failing))
        heartbeat(aws, after_seconds=10 * plans.MINUTE)
    assert len(aws.sent) == 1


def test_a_node_group_without_tags_is_mailed_daily() -> None:
    """The nodes were this experiment's and still cost money, so the user must hear of them."""
    aws = with_nodes_up()
    aws.sent.clear()
    aws.tags = FOREIGN_TAGS
    for _ in range(72 * 2 + PLAN.deadline_minutes // 30):
        heartbeat(aws, after_seconds=30 * plans.MINUTE)
    unread = "draftworth qwen3-32b: the node group cannot be read"
    assert (aws.desired, aws.sent[1:]) == (2, [unread] * 4)
    assert "does not carry the tags" in aws.texts[-1]
    aws.tags = plans.TAGS
    heartbeat(aws)
    aws.instances = []
    heartbeat(aws, after_seconds=10 * plans.MINUTE)
    assert (aws.desired, aws.sent[-1]) == (0, "draftworth qwen3-32b: nodes are gone")


def test_a_foreign_group_without_nodes_is_not_mailed() -> None:
    aws = HostileAws()
    Scenario(aws=aws).do("Create first")
    aws.tags = FOREIGN_TAGS
    aws.instances = [("i-0", "InService")]
    for _ in range(72):
        heartbeat(aws, after_seconds=plans.HOUR)
    assert [subject for subject in aws.sent if "cannot be read" in subject] == []


def test_the_budget_holds_with_nothing_else_readable() -> None:
    aws = with_nodes_up()
    aws.make_hostile(
        Hostility(
            failing_keys=dict.fromkeys(NOT_STATE, "denied"),
            failing_operations=dict.fromkeys(OPERATIONS, "denied"),
        )
    )
    hours = PLAN.budget_usd / PLAN.price_usd_per_node_hour / 2
    heartbeat(aws, after_seconds=0.9 * hours * 60 * plans.MINUTE)
    assert aws.desired == 2
    heartbeat(aws, after_seconds=0.1 * hours * 60 * plans.MINUTE)
    assert aws.desired == 0


@pytest.mark.parametrize("answer", [{"AutoScalingGroups": []}, {}, None])
def test_nodes_that_cannot_be_seen_are_counted(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = with_nodes_up()
    monkeypatch.setattr(aws, "describe_auto_scaling_groups", lambda **_: answer)
    hours = PLAN.budget_usd / PLAN.price_usd_per_node_hour / 2
    heartbeat(aws, after_seconds=0.9 * hours * 60 * plans.MINUTE)
    assert aws.desired == 2
    heartbeat(aws, after_seconds=0.2 * hours * 60 * plans.MINUTE)
    assert aws.desired == 0
    assert not [subject for subject in aws.sent if "lost" in subject]


def test_nodes_at_size_zero_are_mailed_daily() -> None:
    aws = with_nodes_up()
    Scenario(aws=aws).do("complete")
    heartbeat(aws)
    aws.sent.clear()
    for _ in range(72 * 2):
        heartbeat(aws, after_seconds=30 * plans.MINUTE)
    aws.instances = []
    for _ in range(72 * 2):
        heartbeat(aws, after_seconds=30 * plans.MINUTE)
    words = ["still there"] * 3 + ["gone"]
    assert aws.sent == [f"draftworth qwen3-32b: nodes are {one}" for one in words]


@pytest.mark.parametrize("operation", ["describe_nodegroup", "publish"])
def test_mails_that_cannot_be_recorded_are_not_repeated(operation: str) -> None:
    aws = with_nodes_up()
    aws.now += PLAN.deadline_minutes * plans.MINUTE
    if operation == "describe_nodegroup":
        aws.make_hostile(Hostility(failing_operations={operation: "denied"}, writes_fail="denied"))
    else:
        aws.make_hostile(Hostility(failing_operations={operation: "denied"}))
        heartbeat(aws)
        aws.make_hostile(Hostility(writes_fail="denied"))
    aws.sent.clear()
    for _ in range(30):
        heartbeat(aws, after_seconds=2 * plans.MINUTE)
    assert len(aws.sent) <= 1


def test_an_empty_flickering_node_group_raises_no_alarm() -> None:
    aws = with_nodes_up()
    Scenario(aws=aws).do("complete")
    heartbeat(aws, after_seconds=2 * plans.MINUTE)
    aws.instances = []
    heartbeat(aws, after_seconds=PLAN.deadline_minutes * plans.MINUTE)
    aws.sent.clear()
    for number in range(20):
        failing = {"describe_nodegroup": "throttled"} if number % 2 else {}
        aws.make_hostile(Hostility(failing_operations=failing))
        heartbeat(aws, after_seconds=2 * plans.MINUTE)
    assert aws.sent == []


def test_a_size_that_never_arrives_fails_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aws, requests = with_nodes_up(), []
    monkeypatch.setattr(aws, "update_nodegroup_config", lambda **request: requests.append(request))
    with pytest.raises(NotZeroError, match="still shows nodes"):
        aws.controller.scale_to_zero(PLAN, until_unix_s=aws.now + plans.MINUTE)
    assert 1 < len(requests) < 20


def test_a_finished_runs_deadline_sends_no_mail() -> None:
    aws = with_nodes_up()
    scenario = Scenario(aws=aws)
    scenario.do("complete")
    heartbeat(aws)
    scenario.do("nodes follow")
    mails_before = list(aws.sent)
    heartbeat(aws, after_seconds=PLAN.deadline_minutes * plans.MINUTE)
    assert (aws.desired, aws.sent) == (0, mails_before)


def test_too_many_runs_are_not_read_singly() -> None:
    aws = with_nodes_up()
    for number in range(5_000):
        aws.objects[RESULTS, f"runs/{plans.JOB}-{number:08x}/x"] = (b"", "e")
    with bounded():
        heartbeat(aws)
    assert aws.desired == 2
    assert "more than 100 runs" in json.dumps(aws.log[-1])
