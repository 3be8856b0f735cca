"""Tools of other APIs become functions of a chat request, and so does the choice of one."""

from typing import Any

import pytest

from draftworth.importing.tools import read_tools
from draftworth.records.chat import NotSendableError

SCHEMA = {"type": "object", "properties": {}}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}


@pytest.mark.parametrize(
    "tool",
    [
        FUNCTION,
        {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True},
        {"name": "f", "input_schema": SCHEMA, "cache_control": {}},
        {"name": "f", "parameters": '{"type": "object", "properties": {}}'},
    ],
)
def test_one_tool_in_many_forms(tool: dict[str, Any]) -> None:
    assert read_tools([tool], None) == {"tools": [FUNCTION]}


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ("auto", "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "auto"}, None),
        (["auto"], None),
        ({"type": ["any"]}, None),
    ],
)
def test_a_choice_is_kept_where_it_says_more(choice: object, read: object) -> None:
    assert read_tools([FUNCTION], choice).get("tool_choice") == read
    assert read_tools([], choice) == {}


@pytest.mark.parametrize("tools", [7, "f", [7], [{"type": "web_search"}], {"f": {}}])
def test_other_tools_are_refused(tools: object) -> None:
    with pytest.raises(NotSendableError, match="tools: "):
        read_tools(tools, None)
