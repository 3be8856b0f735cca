"""Reads a logged request to an OpenAI-compatible server, and its logged response."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from draftworth.records.chat import NotSendableError, wrong_form

# Settings of a request that change its output, with their defaults. A prompt file has no place for
# them, so an import drops them, and notes each value that is not the default.
_SETTINGS: Mapping[str, Any] = {
    "temperature": 0,
    "top_p": 1,
    "top_k": -1,
    "n": 1,
    "stop": None,
    "logit_bias": None,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
}
_MOST_TOKENS = ("max_completion_tokens", "max_tokens", "max_new_tokens")


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One logged request, and its answer if that was logged too.

    line: the request as a line of a prompt file, without an id.
    answer: the text of the answer; None: the log has no answer as text.
    case: the request's category; None: the log has no categories.
    notes: what was changed or left out, each in a few words without the user's text.
    """

    line: Mapping[str, Any]
    answer: str | None
    case: str | None = None
    notes: tuple[str, ...] = ()


def logged(request: object, response: object) -> Logged:
    """Convert a logged request and its response; `response` None: no response was logged.

    Raises:
        NotSendableError: the request cannot be sent again, for example because nothing is asked.
    """
    if not isinstance(request, dict):
        raise NotSendableError("without a request", "the request is not an object")
    if "messages" in request:
        beside = {**_max_tokens(request), **_tools(request)}
        messages, notes = _messages(request["messages"])
        question, last = _without_last_answer(messages)
        if last is not None and response is not None:
            raise NotSendableError("with the answer's begin", "the assistant's words come last")
        line: dict[str, Any] = {"messages": question, **beside}
        answer = last if response is None else answer_of(response)
    else:
        text = request.get("prompt", request.get("inputs"))
        if not isinstance(text, str):
            raise NotSendableError("without messages or prompt", "neither messages nor a prompt")
        line = {"text_to_continue": text, **_max_tokens(request)}
        notes = ["without messages, taken as texts to continue, which get no chat template"]
        if request.get("response_format") is not None:
            notes.append("with response_format, which is not kept of a text to continue")
        answer = answer_of(response)
    return Logged(line=line, answer=answer, notes=(*notes, *_not_kept(request)))


def answer_of(response: object) -> str | None:
    """Return the text of the answer in a logged response.

    None: the response has no text, or it was logged as the events of a stream.
    """
    if isinstance(response, str):
        return None if response.startswith("data:") else response or None
    if isinstance(response, list):
        response = response[0] if response else None
    if not isinstance(response, dict):
        return None
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(choice, dict):
        message = choice.get("message")
        text = _message_text(message) if isinstance(message, dict) else choice.get("text")
    else:
        text = response.get("generated_text")
    return text if isinstance(text, str) and text else None


def _message_text(message: Mapping[str, Any]) -> str:
    """Return a message's content, followed by the names and arguments of its tool calls.

    This is the order in which the measuring client (`measuring/chunks.py`) joins streamed text.
    """
    content = message.get("content")
    pieces: list[object] = [content]
    if isinstance(content, list):
        pieces = [part.get("text") for part in content if isinstance(part, dict)]
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            pieces += [function.get("name"), function.get("arguments")]
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _messages(value: object) -> tuple[list[dict[str, Any]], list[str]]:
    """Return (changed messages, notes for the user).

    Empty fields other than `content` are removed without a note. The role `developer` is replaced
    by `system`, with a note.
    """
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise wrong_form("messages: not a list of objects")
    empty: tuple[object, ...] = (None, [], {})
    messages = [
        {name: item for name, item in message.items() if name == "content" or item not in empty}
        for message in value
    ]
    notes = []
    for message in messages:
        if message.get("role") == "developer":
            message["role"] = "system"
            notes = ["with the role developer, written as system"]
    return messages, notes


def _without_last_answer(
    messages: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], str | None]:
    """Return (messages, answer): the last message becomes the answer if the assistant wrote it.

    If it did not, all messages are returned, and None in place of the answer.
    """
    if not messages or messages[-1].get("role") != "assistant":
        return messages, None
    question = messages[:-1]
    if not question or question[-1].get("role") not in ("user", "tool"):
        raise NotSendableError("without a question", "nothing is asked before the answer")
    return question, _message_text(messages[-1])


def _max_tokens(request: Mapping[str, Any]) -> dict[str, Any]:
    parameters = request.get("parameters")
    places = (request, parameters if isinstance(parameters, dict) else {})
    for name in _MOST_TOKENS:
        for place in places:
            if place.get(name) is not None:
                return {"max_tokens": place[name]}
    return {}


def _tools(request: Mapping[str, Any]) -> dict[str, Any]:
    if request.get("functions"):
        raise NotSendableError("with functions", "functions are an older form of tools")
    names = (
        ("tools", "tool_choice", "response_format")
        if request.get("tools")
        else ("response_format",)
    )
    return {name: request[name] for name in names if request.get(name) is not None}


def _not_kept(request: Mapping[str, Any]) -> Iterator[str]:
    parameters = request.get("parameters")
    for place in (request, parameters if isinstance(parameters, dict) else {}):
        for name, usual in _SETTINGS.items():
            if place.get(name) not in (None, usual, [], {}):
                yield f"with {name}, which is not kept"
