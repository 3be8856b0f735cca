"""Reads requests to Anthropic's Messages API, and the messages that answer them.

Sources: Anthropic, API reference of messages (system, messages, max_tokens, tools; content blocks)
and of message batches (custom_id with params, and with result).
"""

from draftworth.importing.chat_log import Logged
from draftworth.importing.log_form import LogForm, Value, body_of, listed_under
from draftworth.importing.recorded import Recorded, converted
from draftworth.records.chat import NotSendableError


def anthropic(value: Value) -> Logged:
    """Read a request and its response, alone or as a line of a batch or a log has them."""
    request = body_of(value, "params", "body", "request")
    if "messages" not in request:
        raise NotSendableError("without messages", "no messages")
    return converted(
        Recorded(
            messages=request["messages"],
            system=request.get("system"),
            answer=_response(value),
            tools=request.get("tools"),
            tool_choice=request.get("tool_choice"),
            settings=request,
            model=request.get("model"),
        )
    )


def _response(value: Value) -> object:
    result = value.get("result")
    if isinstance(result, dict):  # of a batch; without a message the request had failed
        return result.get("message", {})
    response = value.get("response")
    return body_of(response, "body") if isinstance(response, dict) else response


ANTHROPIC = LogForm(read=anthropic, parts=listed_under("requests"))
