"""`draftworth logs`, with real calls to an emulated account."""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account.logs import OVERLAP_MS, POLL_SECONDS
from tests.draftworth.account.stubs import QWEN
from tests.draftworth.conftest import Ran

pytestmark = pytest.mark.emulator
GROUP = "/aws/containerinsights/draftworth-qwen3-32b/application"


# Runs the command and returns its lines.
PrintedLines = Callable[..., list[str]]


class Agent:
    """What the CloudWatch agent writes."""

    def __init__(self) -> None:
        self.logs = boto3.client("logs", region_name="us-east-2")
        self.logs.create_log_group(logGroupName=GROUP)
        self.logs.create_log_stream(logGroupName=GROUP, logStreamName="node")

    def write(
        self, log: Any, *, pod: str = "vllm-baseline-x", ago_s: float = 1, **other: str
    ) -> None:
        where = {"namespace_name": "draftworth", "pod_name": pod, "container_name": "vllm", **other}
        self.raw(json.dumps({"log": log, "stream": "stdout", "kubernetes": where}), ago_s=ago_s)

    def raw(self, message: str, *, ago_s: float = 1) -> None:
        at_ms = int((time.time() - ago_s) * 1000)
        event: Any = {"timestamp": at_ms, "message": message}
        self.logs.put_log_events(logGroupName=GROUP, logStreamName="node", logEvents=[event])


@pytest.fixture
def agent() -> Iterator[Agent]:
    with mock_aws():
        yield Agent()


@pytest.fixture
def printed(ran: Ran) -> PrintedLines:
    return lambda *words: ran("logs", QWEN, *words).splitlines()


def test_lines_say_when_who_and_what(agent: Agent, printed: PrintedLines) -> None:
    assert "no line of these pods" in printed()[0]
    agent.write("INFO: ready\n")
    agent.write({"event": "started"}, ago_s=2)
    structured, line = printed()
    assert structured.endswith("{'event': 'started'}")
    assert re.fullmatch(r"\d{4}(-\d\d){2} \d\d(:\d\d){2}  vllm-baseline-x/vllm  INFO: ready", line)


def test_only_our_pods_within_the_time_are_printed(agent: Agent, printed: PrintedLines) -> None:
    agent.write("old", ago_s=3700)
    agent.write("system", namespace_name="kube-system")
    agent.write("measuring", pod="llmperf-1")
    agent.write("serving")
    for words, expected in (
        ((), ["measuring", "serving"]),
        (("--pod", "vllm-"), ["serving"]),
        (("--since-minutes", 120), ["old", "measuring", "serving"]),
    ):
        assert [line.split("  ")[-1] for line in printed(*words)] == expected


def test_a_containers_text_forges_no_other_line(agent: Agent, printed: PrintedLines) -> None:
    agent.write("one\n2026-01-01 00:00:00  llmperf-1/x  forged\x1b[2J")
    first, second = printed()
    assert first.endswith("one")
    assert second.startswith("    2026")
    assert "\x1b" not in second


def test_messages_that_are_no_pods_record_are_skipped(agent: Agent, printed: PrintedLines) -> None:
    messages = (" ", "no JSON", "[]", '{"log": "x"}', '{"kubernetes": 3}', '{"kubernetes": {}}')
    for message in (*messages, "[" * 5000):
        agent.raw(message)
    agent.write("after")
    (line,) = printed()
    assert line.endswith("after")


def test_following_prints_each_line_once_even_late_ones(
    agent: Agent, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = iter([("third", 1.0), ("late", 5.0)])

    def sleep(seconds: float) -> None:
        assert seconds == POLL_SECONDS < OVERLAP_MS / 1000
        try:
            text, ago_s = next(later)
        except StopIteration:
            raise KeyboardInterrupt from None
        agent.write(text, ago_s=ago_s)

    agent.write("first", ago_s=3)
    agent.write("second", ago_s=2)
    monkeypatch.setattr("draftworth.account.logs.time.sleep", sleep)
    lines = ran("logs", QWEN, "--follow", code=1).splitlines()
    assert [line.split("  ")[-1] for line in lines[:-1]] == ["first", "second", "third", "late"]


def test_a_missing_log_group_is_no_traceback(ran: Ran) -> None:
    with mock_aws():
        output = ran("logs", QWEN, code=1)
    assert f"could not read the log group {GROUP}" in output


@pytest.mark.parametrize(
    "words", [["--since-minutes", "44641"], ["--since", "2h"], ["--pod", 'a" || "b']]
)
def test_wrong_usage_ends_with_2(words: list[str], ran: Ran) -> None:
    assert f"draftworth: {words[0]}: " in ran("logs", QWEN, *words, code=2)
