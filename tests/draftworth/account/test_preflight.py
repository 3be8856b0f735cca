"""The command: order, gates, table, exit codes; and which revisions are pinned."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from draftworth.account import clients, preflight
from draftworth.account.checks.check import Check, CheckResult, credentials, passed, region_enabled
from draftworth.account.checks.money_checks import revisions
from draftworth.account.preflight import (
    CHECKS,
    GATES,
    paste_lines,
    results,
    run_program,
    table_lines,
)
from draftworth.experiment.variants import HubModel
from tests.draftworth.account.stubs import (
    QWEN,
    ROOT,
    experiment,
    refusing,
    situation,
    without_credentials,
)
from tests.draftworth.conftest import Ran
from tests.support.experiments import changed

pytestmark = [pytest.mark.emulator]


def test_credentials_name_the_account_and_region_is_enabled() -> None:
    with mock_aws():
        result = credentials(situation())
        assert result.status == "pass"
        assert "arn:aws:sts::" in result.observation
        for region, status in {
            "us-east-2": "pass",
            "ap-east-1": "fail",
            "xx-east-9": "fail",
        }.items():
            assert region_enabled(situation(experiment(region=region))).status == status


def test_account_is_queried_in_an_always_enabled_region() -> None:
    checked = situation(experiment(region="ap-east-1"))
    with mock_aws():
        credentials(checked)
        region_enabled(checked)
    calls = checked.clients.calls  # type: ignore[attr-defined]
    assert calls == [("us-east-1", "GetCallerIdentity"), ("us-east-1", "DescribeRegions")]


def test_only_a_commit_is_pinned() -> None:
    shipped = experiment()
    baseline, drafted = shipped.spec.variants
    for revision, status in (("a" * 40, "pass"), ("v1.0", "warn")):
        pinned = HubModel(model=shipped.spec.target.model, revision=revision)
        variants = (baseline, drafted.model_copy(update={"draft": pinned}))
        experiment_of_commits = changed(shipped, target=pinned, variants=variants)
        assert revisions(situation(experiment_of_commits)).status == status


def test_without_credentials_aws_checks_are_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_credentials(monkeypatch)
    answers = dict(results(dataclasses.replace(situation(), clients=clients.client)))
    asks_aws = [check.name for check in (*GATES, *CHECKS) if check.asks_aws]
    statuses = [answers[name].status for name in asks_aws]
    assert statuses == ["fail", *["skip"] * (len(asks_aws) - 1)]
    assert "aws sso login" in answers["credentials"].next_step
    assert "us-east-1" not in answers["credentials"].observation
    assert {answers[name].observation for name in asks_aws[1:]} == {"not asked: credentials failed"}
    skipped = [line for line in table_lines(answers.items()) if "  skip  " in line]
    assert len(skipped) == 1
    assert f"{asks_aws[1]} and {len(asks_aws) - 2} more" in skipped[0]
    assert answers["budget"].status == "pass"
    assert answers["gated models"].status == "pass"


def test_a_profile_that_does_not_exist_fails_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    result = preflight.result_of(GATES[0], dataclasses.replace(situation(), clients=clients.client))
    assert result.status == "fail"
    assert "profile (nobody) could not be found" in result.observation
    assert "aws configure list-profiles" in result.next_step


def test_checks_in_a_disabled_region_are_skipped() -> None:
    with mock_aws():
        answers = dict(results(situation(experiment(region="ap-east-1"))))
    assert answers["credentials"].status == "pass"
    assert answers["region"].status == "fail"
    assert answers["bootstrap"].observation == "not asked: region failed"


@pytest.mark.parametrize(
    "check", [c for c in (*GATES, *CHECKS) if c.asks_aws], ids=lambda check: check.name
)
def test_a_refusal_is_a_failed_check_with_reason(check: Check) -> None:
    """Whatever the check asks is denied: no error leaves the command as a traceback."""
    kind = "llama-3.1-8b-eagle3" if check.name == "capacity block" else "qwen3-32b"
    checked = situation(experiment(kind, hub_token_secret="hub"))
    refused = dataclasses.replace(checked, clients=refusing)
    result = preflight.result_of(check, refused)
    assert result.status == "fail"
    assert "AccessDenied" in result.observation
    assert "allow" in result.next_step


def test_the_table_is_aligned_with_next_steps_below() -> None:
    answers = [
        ("zone", passed("offered")),
        ("capacity block", CheckResult(status="fail", observation="gone", next_step="buy one")),
    ]
    assert list(table_lines(answers)) == [
        "zone            pass  offered",
        "capacity block  fail  gone",
        "                      next: buy one",
        "",
        "2 checks: 1 pass, 0 warn, 1 fail, 0 skip",
    ]


def test_values_to_paste_stand_below_as_yaml() -> None:
    pins = ({"add_ons": {"a": "v1.0"}}, {"node_release": "1.35.6-20261112"})
    answers = [("a check", passed("it is so", paste={"pins": pin})) for pin in pins]
    assert list(paste_lines(answers)) == [
        "",
        "# What a deploy should get today. In the experiment, later deploys get the same:",
        "aws:",
        "  pins:",
        "    add_ons:",
        "      a: v1.0",
        "    node_release: 1.35.6-20261112",
    ]
    assert list(paste_lines([("zone", passed("offered"))])) == []


def test_a_wrong_experiment_file_is_exit_code_2(tmp_path: Path, ran: Ran) -> None:
    ran("preflight", tmp_path / "none.yaml", code=2)
    assert "make rehearse" in ran("preflight", ROOT / "experiments/rehearsal.yaml", code=2)


@pytest.mark.parametrize(("status", "code"), [("fail", 1), ("warn", 0), ("skip", 0)])
def test_only_a_failure_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, ran: Ran, status: Any, code: int
) -> None:
    result = CheckResult(status=status, observation="so it is")
    monkeypatch.setattr(preflight, "GATES", [])
    monkeypatch.setattr(preflight, "CHECKS", [Check(name="one", run=lambda _: result)])
    assert f"one  {status}  so it is" in ran("preflight", QWEN, code=code)
    for_programs = json.loads(ran("preflight", QWEN, "--json", code=code))
    one = {"name": "one", "status": status, "found": "so it is", "next_step": ""}
    assert for_programs == {"schema": "draftworth.preflight/1", "checks": [one]}


def test_programs_return_code_and_output_missing_ones_nothing() -> None:
    assert run_program(("sh", "-c", "echo out; echo err >&2; exit 3")) == (3, "out\nerr\n")
    assert run_program(("no-such-program-anywhere",)) is None
