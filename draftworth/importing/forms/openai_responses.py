"""Reads requests to OpenAI's Responses API, and the response objects that answer them.

Sources: OpenAI, API reference of responses (input, instructions, max_output_tokens, text.format;
output, output_text, created_at) and batch input with the url /v1/responses.
"""

from typing import Any

from draftworth.importing.chat_log import Logged
from draftworth.importing.log_form import LogForm, Value, body_of
from draftworth.importing.recorded import Recorded, converted
from draftworth.records.chat import NotSendableError

# What stands in a request for messages that only OpenAI has.
_ELSEWHERE = ("previous_response_id", "conversation", "prompt")


def openai_responses(value: Value) -> Logged:
    """Read a request and its response, alone or as a line of a batch or a log has them."""
    request = body_of(value, "body", "request", "params")
    # A dump of a response has the settings of its request too.
    response = request if "output" in request else value.get("response")
    response = body_of(response, "body") if isinstance(response, dict) else {"output": response}
    if request.get("input") in (None, "", []):
        raise NotSendableError("without input", "no input")
    for name in _ELSEWHERE:
        if request.get(name) is not None:
            raise NotSendableError(f"with {name}, whose messages the log does not have", name)
    return converted(
        Recorded(
            messages=_messages(request["input"]),
            system=request.get("instructions"),
            answer=response.get("output") or response.get("output_text"),
            tools=request.get("tools"),
            tool_choice=request.get("tool_choice"),
            response_format=_response_format(request.get("text")),
            settings=request,
            model=request.get("model"),
            time=response.get("created_at"),
        )
    )


def _messages(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


def _response_format(text: object) -> dict[str, Any] | None:
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict) or form.get("type") == "text":
        return None
    if form.get("type") != "json_schema":
        return form
    schema = {name: item for name, item in form.items() if name != "type"}
    return {"type": "json_schema", "json_schema": schema}


OPENAI_RESPONSES = LogForm(read=openai_responses)
