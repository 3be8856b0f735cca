"""Names of models and times of requests, as logs write them."""

from datetime import UTC, datetime

import pytest

from draftworth.importing.provenance import logged_time, model_name


@pytest.mark.parametrize("name", ["gpt-5-mini", "Qwen/Qwen3-32B", "anthropic.claude-v2:1", "a@b"])
def test_a_models_name_is_kept(name: str) -> None:
    assert model_name(name) == name


@pytest.mark.parametrize("value", [None, "", 7, ["m"], "my number is 5", "x" * 200, "a\nb", "é"])
def test_what_may_be_text_is_no_name(value: object) -> None:
    assert model_name(value) is None


NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-01T12:00:00Z",
        "2026-11-01 12:00:00.000000",
        "2026-11-01T13:00:00+01:00",
        1793534400,
        1793534400.0,
        1793534400000,
        "1793534400000000000",
    ],
)
def test_one_time_in_many_forms(value: object) -> None:
    assert logged_time(value) == NOON


@pytest.mark.parametrize(
    "value", [None, "", "noon", True, [1], -(10**30), 10**400, float("1e308"), "9" * 5_000, "²"]
)
def test_what_is_no_time_is_none(value: object) -> None:
    time = logged_time(value)
    assert time is None or time.year < 9_999
