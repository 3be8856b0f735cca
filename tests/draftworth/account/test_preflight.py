"""The command: order, gates, table, exit codes; and the checks of money."""

from __future__ import annotations

import dataclasses
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account import preflight
from draftworth.account.checks.check import Check, Outcome, credentials, passed, region_enabled
from draftworth.account.checks.money import (
    budget,
    example_values_replaced,
    price_date,
    revisions,
    spot_price,
)
from draftworth.account.clients import client
from draftworth.account.preflight import (
    CHECKS,
    GATES,
    outcomes,
    paste_lines,
    run_program,
    table_lines,
)
from draftworth.cli import main
from draftworth.experiment.variants import HubModel
from tests.draftworth.account.stubs import NOW, ROOT, Answer, RefusingClient, experiment, situation
from tests.support.experiments import changed

pytestmark = [pytest.mark.emulator]
QWEN = str(ROOT / "experiments/qwen3-32b.yaml")


def price(**changes: Any) -> dict[str, Any]:
    return {"usd_per_hour": 10.0, "as_of": NOW.date(), "source": "the console"} | changes


def spot_prices(*prices: str) -> Answer:
    history = [
        {
            "AvailabilityZone": "us-east-2c",
            "SpotPrice": text,
            "Timestamp": NOW - timedelta(minutes=age),
        }
        for age, text in enumerate(prices)
    ]
    return Answer(method="describe_spot_price_history", response={"SpotPriceHistory": history})


def test_credentials_are_shown_by_account_and_name() -> None:
    with mock_aws():
        outcome = credentials(situation())
    assert outcome.status == "pass"
    assert "arn:aws:sts::" in outcome.found


@pytest.mark.parametrize(
    ("region", "status"), [("us-east-2", "pass"), ("ap-east-1", "fail"), ("xx-east-9", "fail")]
)
def test_a_region_must_be_there_and_enabled(region: str, status: str) -> None:
    with mock_aws():
        assert region_enabled(situation(experiment(region=region))).status == status


def test_the_account_is_asked_in_a_region_that_is_never_switched_off() -> None:
    given = situation(experiment(region="ap-east-1"))
    with mock_aws():
        credentials(given)
        region_enabled(given)
    asked = given.clients.asked  # type: ignore[attr-defined]
    assert asked == [("sts", "us-east-1"), ("ec2", "us-east-1")]


@pytest.mark.parametrize(
    ("as_of", "status"),
    [
        (NOW.date(), "pass"),
        (NOW.date() - timedelta(days=14), "pass"),
        (NOW.date() - timedelta(days=15), "warn"),
        (NOW.date() + timedelta(days=2), "warn"),
    ],
)
def test_a_spot_price_is_too_old_after_two_weeks(as_of: date, status: str) -> None:
    assert price_date(situation(experiment(price=price(as_of=as_of)))).status == status


def test_an_example_value_fails_until_it_is_replaced() -> None:
    shipped = experiment("llama-3.1-8b-eagle3")
    outcome = example_values_replaced(situation(shipped))
    assert outcome.status == "fail"
    assert "aws.capacity.reservation_id cr-0123456789abcdef0" in outcome.found
    block = {"kind": "capacity_block", "reservation_id": "cr-0fedcba9876543210"}
    own = experiment("llama-3.1-8b-eagle3", capacity=block)
    assert example_values_replaced(situation(own)).status == "pass"


def test_a_list_price_is_too_old_after_a_quarter() -> None:
    month_old = price(as_of=NOW.date() - timedelta(days=30))
    given = experiment(price=month_old, capacity={"kind": "on_demand"})
    assert price_date(situation(given)).status == "pass"


@pytest.mark.parametrize(
    ("now", "status"), [("10.00", "pass"), ("11.90", "pass"), ("12.50", "warn"), ("7.50", "warn")]
)
def test_the_newest_spot_price_of_the_zone_is_near_the_experiments(now: str, status: str) -> None:
    answers = [spot_prices(now, "99.0")]
    assert spot_price(situation(experiment(price=price()), ec2=answers)).status == status


def test_a_zone_without_a_spot_price_is_a_warning() -> None:
    assert spot_price(situation(ec2=[spot_prices()])).status == "warn"


def test_capacity_that_is_not_spot_has_no_spot_price() -> None:
    assert spot_price(situation(experiment("llama-3.1-8b-eagle3"))).status == "skip"


def test_a_spot_price_that_moved_comes_ready_to_paste() -> None:
    given = experiment(price=price())
    moved = spot_price(situation(given, ec2=[spot_prices("12.50", "9.00")])).paste["price"]
    assert (moved["usd_per_hour"], moved["as_of"]) == (12.5, NOW.date())
    assert "9.00 to 12.50 in 7 days" in moved["source"]
    assert spot_price(situation(given, ec2=[spot_prices("10.10")])).paste == {}


def test_without_a_price_the_checks_say_how_to_get_one_and_the_budget_is_not_judged() -> None:
    unpriced = experiment(price=None)
    assert price_date(situation(unpriced)).status == "warn"
    assert "python -m draftworth price" in price_date(situation(unpriced)).next_step
    assert "`cdk deploy` cannot" in price_date(situation(unpriced)).next_step
    assert spot_price(situation(unpriced, ec2=[spot_prices("12.50")])).status == "pass"
    assert budget(situation(unpriced)).status == "skip"


@pytest.mark.parametrize(("usd", "status"), [(1000.0, "pass"), (1.0, "fail")])
def test_the_budget_is_held_against_what_the_run_is_estimated_to_need(
    usd: float, status: str
) -> None:
    outcome = budget(situation(experiment(price=price(), budget_usd=usd)))
    assert outcome.status == status
    assert f"pay for {6 * usd:.0f} minutes of 1 node;" in outcome.found


def test_a_budget_between_the_estimates_is_a_warning() -> None:
    pays_all = budget(situation(experiment(price=price(), budget_usd=1000.0)))
    low, high = (int(word) for word in re.findall(r"need (\d+) to (\d+)", pays_all.found)[0])
    between = experiment(price=price(), budget_usd=(low + high) / 2 / 6)
    assert budget(situation(between)).status == "warn"


@pytest.mark.parametrize(("revision", "status"), [("a" * 40, "pass"), ("v1.0", "warn")])
def test_only_a_commit_is_pinned(revision: str, status: str) -> None:
    shipped = experiment()
    pinned = HubModel(model=shipped.spec.target.model, revision=revision)
    baseline, drafted = shipped.spec.variants
    variants = (baseline, drafted.model_copy(update={"draft": pinned}))
    given = changed(shipped, target=pinned, variants=variants)
    assert revisions(situation(given)).status == status


def test_without_credentials_one_check_fails_and_the_rest_of_aws_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    answers = dict(outcomes(dataclasses.replace(situation(), clients=client)))
    asks_aws = [check.name for check in (*GATES, *CHECKS) if check.asks_aws]
    statuses = [answers[name].status for name in asks_aws]
    assert statuses == ["fail", *["skip"] * (len(asks_aws) - 1)]
    assert "aws sso login" in answers["credentials"].next_step
    assert "us-east-1" not in answers["credentials"].found
    assert {answers[name].found for name in asks_aws[1:]} == {"not asked: credentials failed"}
    assert answers["budget"].status == "pass"
    assert answers["gated models"].status == "pass"


def test_a_gated_model_without_a_secret_fails_without_credentials_too() -> None:
    refused = dataclasses.replace(
        situation(experiment("llama-3.1-8b-eagle3")),
        clients=lambda service, region: RefusingClient(),
    )
    answers = dict(outcomes(refused))
    assert answers["credentials"].status == "fail"
    assert answers["gated models"].status == "fail"
    assert answers["hub token"].status == "skip"


def test_a_profile_that_does_not_exist_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    outcome = preflight.outcome_of(GATES[0], dataclasses.replace(situation(), clients=client))
    assert outcome.status == "fail"
    assert "profile (nobody) could not be found" in outcome.found
    assert "aws configure list-profiles" in outcome.next_step


def test_checks_in_a_region_that_is_disabled_are_skipped() -> None:
    with mock_aws():
        answers = dict(outcomes(situation(experiment(region="ap-east-1"))))
    assert answers["credentials"].status == "pass"
    assert answers["region"].status == "fail"
    assert answers["bootstrap"].found == "not asked: region failed"


@pytest.mark.parametrize(
    "check", [c for c in (*GATES, *CHECKS) if c.asks_aws], ids=lambda check: check.name
)
def test_a_refusal_is_a_failed_check_with_its_reason(check: Check) -> None:
    """Whatever the check asks is denied: no error leaves the command as a traceback."""
    kind = "llama-3.1-8b-eagle3" if check.name == "capacity block" else "qwen3-32b"
    given = situation(experiment(kind, hub_token_secret="hub"))
    refused = dataclasses.replace(given, clients=lambda service, region: RefusingClient())
    outcome = preflight.outcome_of(check, refused)
    assert outcome.status == "fail"
    assert "AccessDenied" in outcome.found
    assert "allow" in outcome.next_step


def test_the_table_is_aligned_and_names_the_next_step_below() -> None:
    answers = [
        ("zone", passed("offered")),
        ("capacity block", Outcome(status="fail", found="gone", next_step="buy one")),
    ]
    assert list(table_lines(answers)) == [
        "zone            pass  offered",
        "capacity block  fail  gone",
        "                      next: buy one",
        "",
        "2 checks: 1 pass, 0 warn, 1 fail, 0 skip",
    ]


def test_what_can_be_taken_over_stands_below_the_table_as_yaml() -> None:
    answers = [
        ("add-ons", Outcome("pass", "the defaults", paste={"pins": {"add_ons": {"a": "v1.0"}}})),
        ("node image", Outcome("pass", "one", paste={"pins": {"node_release": "1.35.6-20261112"}})),
    ]
    assert list(paste_lines(answers)) == [
        "",
        "# What a deploy gets today. In the experiment, later deploys get the same:",
        "aws:",
        "  pins:",
        "    add_ons:",
        "      a: v1.0",
        "    node_release: 1.35.6-20261112",
    ]
    assert list(paste_lines([("zone", passed("offered"))])) == []


def test_a_wrong_experiment_file_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preflight", str(tmp_path / "none.yaml")]) == 2
    assert main(["preflight", str(ROOT / "experiments/rehearsal.yaml")]) == 2
    assert "make rehearse" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "code"), [("fail", 1), ("warn", 0), ("skip", 0)])
def test_only_a_failure_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: Any, code: int
) -> None:
    outcome = Outcome(status=status, found="so it is")
    monkeypatch.setattr(preflight, "GATES", [])
    monkeypatch.setattr(preflight, "CHECKS", [Check(name="one", run=lambda _: outcome)])
    assert main(["preflight", QWEN]) == code
    assert f"one  {status}  so it is" in capsys.readouterr().out


def test_programs_answer_with_code_and_output_and_missing_ones_with_nothing() -> None:
    assert run_program(("sh", "-c", "echo out; echo err >&2; exit 3")) == (3, "out\nerr\n")
    assert run_program(("no-such-program-anywhere",)) is None
