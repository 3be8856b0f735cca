"""Paths into records, and the paths that a record has."""

import json
from typing import Any

import pytest

from draftworth.importing.record_paths import MISSING, at_path, named_values

RECORD: dict[str, Any] = {
    "inputs": {"messages": [{"role": "user"}, {"role": "tool"}]},
    "attributes": {"gen_ai.prompt": "x", "gen_ai": {"prompt": "y", "model": "m"}},
    "body": json.dumps({"text": ["a", "b"]}),
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("inputs.messages.1.role", "tool"),
        ("attributes.gen_ai.prompt", "x"),
        ("attributes.gen_ai.model", "m"),
        ("body.text.1", "b"),
        ("inputs.messages.2", MISSING),
        ("inputs.messages.-1", MISSING),
        ("inputs.messages.role", MISSING),
        ("inputs.none", MISSING),
        ("body.text.1.x", MISSING),
    ],
)
def test_a_path_leads_to_a_value(path: str, value: object) -> None:
    assert at_path(RECORD, path.split(".")) == value


def test_paths_of_a_record_lead_back() -> None:
    paths = dict(named_values(RECORD))
    assert "inputs.messages.0.role" in paths
    assert "attributes.gen_ai.prompt" in paths
    assert not any(path.startswith("body.") for path in paths)  # people may have written it
    for path in ("inputs.messages.0.role", "attributes.gen_ai.model"):
        assert at_path(RECORD, path.split(".")) == paths[path]


def test_keys_that_may_be_text_are_not_named() -> None:
    record = {"my number is 5": 1, "a@b.c": 1, "x" * 50: 1, "é": 1, "ok": {"1 2": 1}}
    assert [path for path, _ in named_values(record)] == ["ok"]


def test_depth_and_width_have_limits() -> None:
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"a": deep}
    assert max(path.count(".") for path, _ in named_values(deep)) == 4
    assert len([*named_values({f"k{number}": 1 for number in range(1_000)})]) == 40
