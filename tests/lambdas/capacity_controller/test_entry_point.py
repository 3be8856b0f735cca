"""The function's environment and its entry point."""

import time
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from lambdas.capacity_controller import handler as handler_module
from lambdas.capacity_controller.handler import handler
from lambdas.capacity_controller.state import load_settings
from tests.lambdas.capacity_controller import conftest
from tests.lambdas.capacity_controller.fakes import SETTINGS


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
