"""What is decided and mailed before an accelerator starts: about canaries and staging Jobs."""

import dataclasses
from typing import Any

import pytest

from draftworth.records.checkpoints import ReadyModel
from draftworth.records.codec import dump_record
from draftworth.records.deployment import ModelRef
from lambdas.capacity_controller.silent_pods import SILENT_AFTER_SECONDS
from lambdas.capacity_controller.staged_models import tokenizer_mismatch
from tests.lambdas.capacity_controller import plans
from tests.lambdas.capacity_controller.conftest import Account, s3_event
from tests.lambdas.capacity_controller.fakes import CHECKPOINTS, RESULTS

CANARY_EVENT = s3_event(RESULTS, f"control/canary/{plans.JOB}/baseline.json")
FAILED_EVENT = s3_event(CHECKPOINTS, "Qwen/Qwen3-32B/main/_FAILED.json")
HELD = plans.make_plan(hold=True, job_name=plans.HELD_JOB)
SILENT = "draftworth qwen3-32b: canary is silent"


def untried(account: Account) -> None:
    """Deploy and stage everything, without any canary's report."""
    account.canaries_report = False
    account.start()
    account.mail()


# Canaries


def test_nodes_wait_for_the_canary_of_every_variant(account: Account) -> None:
    untried(account)
    assert account.outcome == (0, "waiting_for_canary")
    account.report(plans.VARIANTS[0])
    account.handle(CANARY_EVENT)
    assert account.outcome == (0, "waiting_for_canary")
    account.report(plans.VARIANTS[1])
    account.handle(CANARY_EVENT)
    assert account.outcome == (1, "ready")
    assert account.subjects() == ["draftworth qwen3-32b: 1 node, ready"]


@pytest.mark.parametrize(("seconds", "size"), [(-1, 0), (0, 1)])
def test_a_report_of_before_the_deploy_says_nothing(
    account: Account, seconds: float, size: int
) -> None:
    untried(account)
    account.report(reported_at_unix_s=plans.NOW + seconds)
    account.handle(CANARY_EVENT)
    assert account.desired == size


def test_a_failed_canary_is_mailed_and_costs_nothing(account: Account) -> None:
    untried(account)
    lines = tuple(f"line {n}" for n in range(100))
    account.report(plans.VARIANTS[1], ok=False, text="no credentials for s3", last_lines=lines)
    account.handle(CANARY_EVENT)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: 0 nodes, canary failed"
    for words in (plans.VARIANTS[1], "no credentials for s3", "    line 99\n", "make logs"):
        assert words in mail["text"]
    assert "line 79\n" not in mail["text"]
    account.heartbeat(after=plans.HOUR)
    assert (account.mail(), account.desired, account.paid_seconds) == ([], 0, 0.0)
    account.report()
    account.handle(CANARY_EVENT)
    assert account.desired == 1, "a later try is well"


@pytest.mark.parametrize("staged_after", [0.0, plans.HOUR, 1000 * plans.HOUR])
def test_a_silent_canary_is_mailed_after_ten_minutes(account: Account, staged_after: float) -> None:
    """A marker with a time in the future does not prevent the mail."""
    account.canaries_report = False
    account.deploy()
    account.heartbeat(after=staged_after if staged_after == plans.HOUR else 0.0)
    account.stage(staged_at_unix_s=plans.NOW + staged_after)
    account.heartbeat()
    account.mail()
    account.heartbeat(after=SILENT_AFTER_SECONDS - 1)
    assert account.mail() == []
    account.heartbeat(after=1)
    account.heartbeat(after=2 * plans.MINUTE)
    (mail,) = account.mail()
    assert mail["subject"] == SILENT
    for words in (*plans.VARIANTS, "describe pods", "make logs"):
        assert words in mail["text"]
    assert (account.desired, account.paid_seconds) == (0, 0.0)
    account.report()
    account.handle(CANARY_EVENT)
    assert account.desired == 1


def test_an_invalid_report_starts_and_ends_nothing(account: Account) -> None:
    untried(account)
    key = f"control/canary/{plans.JOB}/baseline.json"
    account.write(RESULTS, key, b"{")
    account.handle(CANARY_EVENT)
    assert account.outcome == (0, "waiting_for_canary")
    account.report()
    account.handle(CANARY_EVENT)
    account.instances_follow()
    account.write(RESULTS, key, b"{")
    account.heartbeat(after=plans.HOUR)
    assert account.outcome == (1, "ready")


@pytest.mark.parametrize("silent", [True, False])
def test_running_nodes_wait_for_a_new_jobs_canary(account: Account, silent: bool) -> None:
    """In a deploy during a run the nodes stay: a canary takes a minute, a new node twenty."""
    account.start()
    account.instances_follow()
    account.canaries_report = False
    account.update(plans.make_plan(job_name=plans.OTHER_JOB))
    account.heartbeat(after=2 * plans.MINUTE)
    assert account.outcome == (1, "waiting_for_canary")
    if not silent:
        account.report(job=plans.OTHER_JOB)
    account.heartbeat(after=SILENT_AFTER_SECONDS - 2 * plans.MINUTE)
    assert account.outcome == ((0, "waiting_for_canary") if silent else (1, "ready"))
    assert (SILENT in account.subjects()) is silent
    assert len(account.called("UpdateNodegroupConfig")) == 1 + silent


# Staging


def test_a_failed_staging_is_mailed_and_costs_nothing(account: Account) -> None:
    account.stage(plans.DRAFT)
    account.give_up_staging(failed_at_unix_s=plans.NOW - 1)
    account.deploy()
    assert account.reason == "waiting_for_models", "it was before the deploy"
    account.mail()
    account.give_up_staging(reason="401: accept the conditions of the model")
    account.handle(FAILED_EVENT)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: 0 nodes, staging failed"
    for words in ("Qwen/Qwen3-32B at main", "accept the conditions", "rerun"):
        assert words in mail["text"]
    account.heartbeat(after=plans.HOUR)
    assert (account.mail(), account.desired, account.paid_seconds) == ([], 0, 0.0)
    account.stage()
    account.heartbeat()
    assert account.desired == 1, "a model that is staged was not given up"


@pytest.mark.parametrize("begun", [(), (plans.DRAFT,), (plans.TARGET, plans.DRAFT)])
def test_silent_stagers_are_mailed_once_after_ten_minutes(
    account: Account, begun: tuple[ModelRef, ...]
) -> None:
    account.begin_staging(*begun)
    account.deploy()
    account.mail()
    account.heartbeat(after=SILENT_AFTER_SECONDS - 1)
    assert account.mail() == []
    account.heartbeat(after=1)
    account.heartbeat(after=2 * plans.MINUTE)
    mails, silent = account.mail(), {plans.TARGET, plans.DRAFT} - {*begun}
    assert len(mails) == bool(silent)
    for mail in mails:
        assert mail["subject"] == "draftworth qwen3-32b: staging is silent"
        assert {m for m in (plans.TARGET, plans.DRAFT) if m.model in mail["text"]} == silent
    assert account.outcome == (0, "waiting_for_models")


@pytest.mark.parametrize(
    ("other", "staged"),
    [({"model": "acme/other"}, False), ({"revision": "v2"}, False), ({"commit": "d" * 40}, True)],
)
def test_a_ready_marker_of_another_checkpoint_starts_nothing(
    account: Account, other: dict[str, Any], staged: bool
) -> None:
    account.stage(plans.DRAFT)
    marker = dataclasses.replace(plans.make_ready(plans.TARGET), **other)
    account.write(CHECKPOINTS, "Qwen/Qwen3-32B/main/_READY.json", dump_record(marker))
    account.deploy()
    assert account.outcome == ((1, "ready") if staged else (0, "waiting_for_models"))
    account.stage(plans.TARGET)
    account.heartbeat()
    assert account.outcome == (1, "ready")


@pytest.mark.parametrize("other", [{"model": "acme/other"}, {"revision": "v2"}])
def test_another_checkpoints_failure_ends_nothing(account: Account, other: dict[str, Any]) -> None:
    marker = dataclasses.replace(plans.make_failed_model(), **other)
    account.write(CHECKPOINTS, "Qwen/Qwen3-32B/main/_FAILED.json", dump_record(marker))
    account.stage(plans.DRAFT)
    account.deploy()
    assert account.reason == "waiting_for_models"


def test_a_marker_that_is_none_gives_nothing_up(account: Account) -> None:
    key = "Qwen/Qwen3-32B/main/_FAILED.json"
    account.write(CHECKPOINTS, key, b"{")
    account.stage(plans.DRAFT)
    account.deploy()
    assert account.reason == "waiting_for_models"
    account.stage(plans.TARGET)
    account.heartbeat()
    assert account.desired == 1


# Tokenizers

READY = plans.make_ready(plans.TARGET, vocabulary="3" * 64)


def with_tokenizer(model: str, fingerprint: str | None) -> ReadyModel:
    return dataclasses.replace(READY, model=model, tokenizer_fingerprint=fingerprint)


def test_a_mismatch_names_both_models_and_the_remedy() -> None:
    text = tokenizer_mismatch(READY, with_tokenizer("acme/other", "4" * 64), "own")
    assert text is not None
    for part in ("Qwen/Qwen3-32B at main", "acme/other at main", "333333", "444444", "next: "):
        assert part in text


def test_two_models_without_tokenizers_do_not_agree() -> None:
    text = tokenizer_mismatch(with_tokenizer("acme/a", None), with_tokenizer("acme/b", None), "own")
    assert text is not None
    assert "acme/a at main (commit " in text
    assert "has no tokenizer.json and no vocab.json" in text


# On hold


def test_all_well_on_hold_is_mailed_once(account: Account) -> None:
    account.start(HELD)
    (mail,) = account.mail()
    assert mail["subject"] == "draftworth qwen3-32b: 0 nodes, on hold"
    for words in ("every model is staged and every canary is well", "remove aws.hold"):
        assert words in mail["text"]
    account.heartbeat(after=plans.HOUR)
    assert (account.mail(), account.desired, account.paid_seconds) == ([], 0, 0.0)


def test_a_canary_may_succeed_after_the_held_deadline(account: Account) -> None:
    account.canaries_report = False
    account.start(HELD)
    account.heartbeat(after=2 * HELD.deadline_minutes * plans.MINUTE)
    assert account.outcome == (0, "waiting_for_canary")
    account.report(job=HELD.job_name, reported_at_unix_s=account.now)
    account.handle(CANARY_EVENT)
    assert account.outcome == (0, "on_hold")


def test_the_deploy_after_hold_has_its_whole_deadline(account: Account) -> None:
    account.start(HELD)
    account.now += 2 * HELD.deadline_minutes * plans.MINUTE
    account.update(plans.make_plan())
    assert account.outcome == (1, "ready")
    end = account.now + plans.make_plan().deadline_minutes * plans.MINUTE
    assert account.deployment.own_deadline_unix_s == end


def test_hold_ends_the_nodes_that_run(account: Account) -> None:
    account.start()
    account.instances_follow()
    assert account.desired == 1
    account.update(HELD)
    assert account.desired == 0
