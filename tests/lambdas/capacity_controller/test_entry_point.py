"""The table of mails in docs/troubleshooting.md, and the function's entry point."""

import re
import time
from types import SimpleNamespace
from typing import Any, get_args

import boto3
import pytest

from lambdas.capacity_controller import handler as handler_module
from lambdas.capacity_controller.decision import Reason
from lambdas.capacity_controller.handler import handler
from lambdas.capacity_controller.launch_failures import CAPACITY, LAUNCH, QUOTA
from lambdas.capacity_controller.notifications import NEXT, SUBJECTS, TEXTS, Mail
from lambdas.capacity_controller.settings import load_settings
from tests.conftest import ROOT
from tests.lambdas.capacity_controller import conftest
from tests.lambdas.capacity_controller.fakes import SETTINGS

# These reasons are only logged.
NOT_MAILED = {"unknown"}


def documented(page: str) -> list[str]:
    """Return the first cell of each row in the page's table of mails."""
    table = re.search(r"<!-- mails:.*?-->(.*?)<!-- end of mails -->", page, re.DOTALL)
    assert table
    return re.findall(r"^\| `([^`]+)` \|", table[1], re.MULTILINE)


def mailed() -> set[str]:
    """Return the subjects of all mails in the code, in the form of the page's table."""
    decisions = set(get_args(Reason)) - NOT_MAILED
    words = {word.replace("_", " ") for word in (*decisions, CAPACITY, QUOTA, LAUNCH)}
    return words | {SUBJECTS[mail].format(number="N") for mail in Mail}


def undocumented(page: str) -> set[str]:
    """Return mails without a row, and rows without a mail."""
    return mailed() ^ set(documented(page))


def test_each_mail_has_a_row_and_vice_versa() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    rows = documented(page)
    assert undocumented(page) == set()
    assert len(rows) == len(set(rows))


def test_a_missing_or_renamed_row_is_noticed() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    assert undocumented(page.replace("| `not begun` |", "| `never begun` |")) == {
        "not begun",
        "never begun",
    }


def test_every_mail_has_its_subject_and_its_text() -> None:
    """The two mails about a lost state share a text."""
    assert {*Mail} == set(SUBJECTS)
    assert {*Mail} - set(TEXTS) == {"state_lost_to_zero"}
    assert set(NEXT) < set(get_args(Reason))


def test_no_next_step_begins_with_kubectl() -> None:
    """A default cluster is private, so steps that need no access to it come first."""
    first = {reason: text.find("make logs") for reason, text in NEXT.items() if "kubectl" in text}
    assert first
    assert all(0 <= at < NEXT[reason].index("kubectl") for reason, at in first.items())


def test_missing_settings_are_named_together() -> None:
    with pytest.raises(RuntimeError, match=r"TOPIC_ARN, SCHEDULE_GROUP, SCHEDULE_ROLE_ARN"):
        load_settings({"CHECKPOINTS_BUCKET": "a", "RESULTS_BUCKET": "b", "TOPIC_ARN": ""})


def test_the_deployed_entry_point_reads_its_environment(
    account: conftest.Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account.now = time.time()
    account.deploy()
    account.stage()
    for name, value in vars(SETTINGS).items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: account)
    context: Any = SimpleNamespace(invoked_function_arn=conftest.FUNCTION_ARN)
    handler_module._controller.cache_clear()
    handler(conftest.READY_EVENT, context)
    handler_module._controller.cache_clear()
    assert account.desired == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert '"reason": "ready"' in line
