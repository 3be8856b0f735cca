"""Converts the tools of a logged request, and the choice of one, to those of a chat request.

Sources: OpenAI, Chat Completions (`function` in each tool) and Responses (its keys beside `type`);
Anthropic, Messages (`input_schema`, and choices `any` and `tool`).
"""

from typing import Any

from draftworth.importing.messages import decoded
from draftworth.records.chat import TOOL_CHOICES, NotSendableError, wrong_form

_CHOICES = {"any": "required", "none": "none", "required": "required"}


def read_tools(tools: object, choice: object) -> dict[str, Any]:
    """Return `tools` and `tool_choice` of a chat request; empty: the request has no tools.

    NotSendableError: a tool has no schema of its arguments, as those that a
    provider runs itself.
    """
    tools = decoded(tools)
    if not tools:
        return {}
    if not isinstance(tools, list):
        raise wrong_form("tools: not a list")
    return {"tools": [_tool(decoded(tool)) for tool in tools], **_choice(decoded(choice))}


def _tool(tool: object) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise wrong_form("tools: not a list of objects")
    if isinstance(tool.get("function"), dict):
        return {"type": "function", "function": tool["function"]}
    parameters = tool.get("parameters", tool.get("input_schema"))
    if parameters is None:
        raise NotSendableError(
            "with tools without a schema of their arguments", "tools: no parameters"
        )
    described = {name: tool[name] for name in ("name", "description") if name in tool}
    return {"type": "function", "function": {**described, "parameters": decoded(parameters)}}


def _choice(choice: object) -> dict[str, Any]:
    if isinstance(choice, str) and choice in TOOL_CHOICES:
        return {"tool_choice": choice}
    if not isinstance(choice, dict):
        return {}
    if isinstance(choice.get("function"), dict):
        return {"tool_choice": choice}
    kind, name = choice.get("type"), choice.get("name")
    if kind in ("tool", "function") and isinstance(name, str):
        return {"tool_choice": {"type": "function", "function": {"name": name}}}
    chosen = _CHOICES.get(kind) if isinstance(kind, str) else None
    return {"tool_choice": chosen} if chosen else {}
