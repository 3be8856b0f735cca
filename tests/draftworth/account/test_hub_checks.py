"""The hub is asked for each model, and whether the token opens it, before anything is deployed."""

import pytest

from draftworth.account import model_hub
from draftworth.account.checks import hub_checks
from draftworth.account.checks.check import CheckResult
from tests.draftworth.account.stubs import experiment, situation
from tests.support.model_hub import hub

TARGET, DRAFT = "Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"
TOKEN = "hf_0123456789"
# Port 9 (discard): nothing listens there.
NOBODY = "http://127.0.0.1:9"


def models(patch: pytest.MonkeyPatch, target: int, draft: int, **aws: str) -> CheckResult:
    statuses = {f"{TARGET}/revision/main": target, f"{DRAFT}/revision/main": draft}
    with hub(statuses) as (address, requests):
        patch.setattr(model_hub, "HUB", address)
        result = hub_checks.models(situation(experiment(**aws)))
    assert {authorization for _, authorization in requests} == {None}
    return result


@pytest.mark.parametrize(
    ("target", "draft", "status", "words"),
    [
        (200, 200, "pass", f"the hub has {TARGET}@main, {DRAFT}@main"),
        (200, 404, "fail", f"or it is private: {DRAFT}@main"),
        (401, 200, "fail", f"or it is private: {TARGET}@main"),
        (200, 503, "warn", f"the hub answers 503 for {DRAFT}@main"),
        (307, 200, "warn", f"the hub answers 307 for {TARGET}@main"),
    ],
)
def test_each_model_must_exist(
    monkeypatch: pytest.MonkeyPatch, target: int, draft: int, status: str, words: str
) -> None:
    result = models(monkeypatch, target, draft)
    assert result.status == status
    assert words in result.observation


def test_a_hidden_model_is_left_to_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    result = models(monkeypatch, 401, 200, hub_token_secret="hub")
    assert (result.status, result.observation) == ("pass", f"the hub has {DRAFT}@main")
    assert models(monkeypatch, 404, 200, hub_token_secret="hub").status == "fail"


@pytest.mark.parametrize(
    ("target", "draft", "status", "words"),
    [
        (200, 200, "pass", f"the token may read {TARGET}, {DRAFT}"),
        (403, 200, "fail", f"may not read {TARGET}"),
        (200, 404, "fail", f"may not read {DRAFT}"),
        (401, 401, "fail", "refuses the token"),
        (200, 500, "warn", f"answers 500 for {DRAFT}"),
        (307, 200, "warn", f"answers 307 for {TARGET}"),
    ],
)
def test_the_token_must_open_each_model(
    monkeypatch: pytest.MonkeyPatch, target: int, draft: int, status: str, words: str
) -> None:
    with hub({f"{TARGET}/auth-check": target, f"{DRAFT}/auth-check": draft}) as (address, requests):
        monkeypatch.setattr(model_hub, "HUB", address)
        result = hub_checks.model_access(situation(), TOKEN)
    assert (result.status, words in result.observation) == (status, True)
    paths = [f"/api/models/{model}/auth-check" for model in (TARGET, DRAFT)]
    assert requests == [(path, f"Bearer {TOKEN}") for path in paths]


def test_a_redirect_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with hub({f"{TARGET}/auth-check": 302}) as (address, requests):
        monkeypatch.setattr(model_hub, "HUB", address)
        assert model_hub.access_status(TARGET, TOKEN) == 302
    assert len(requests) == 1


@pytest.mark.parametrize("token", [TOKEN, f"{TOKEN}\nX: 1"])
def test_an_unreachable_hub_warns_without_the_token(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setattr(model_hub, "HUB", NOBODY)
    for result in (
        hub_checks.models(situation()),
        hub_checks.model_access(situation(), token),
    ):
        assert result.status == "warn"
        assert TOKEN not in str(result)
