"""Reads a logged request to an OpenAI-compatible server, and its logged response."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from draftworth.importing.messages import message_text
from draftworth.importing.provenance import logged_time, model_name
from draftworth.records.chat import NotSendableError, wrong_form

# Settings of a request that change its output, with their defaults. A prompt file has no place for
# them, so an import drops them, and notes each value that is not the default.
_SETTINGS: Mapping[str, Any] = {
    "temperature": 0,
    "top_p": 1,
    "top_k": -1,
    "n": 1,
    "stop": None,
    "stop_sequences": None,
    "logit_bias": None,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
}
_MOST_TOKENS = ("max_completion_tokens", "max_output_tokens", "max_tokens", "max_new_tokens")


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One logged request, and its answer if that was logged too.

    line: the request as a line of a prompt file, without an id.
    answer: the text of the answer; None: the log has no answer as text.
    case: the request's category; None: the log has no categories.
    notes: what was changed or left out, each in a few words without the user's text.
    model: the name of the model that was asked; time: when; None: the log does not say it.
    """

    line: Mapping[str, Any]
    answer: str | None
    case: str | None = None
    notes: tuple[str, ...] = ()
    model: str | None = None
    time: datetime | None = None


def logged(request: object, response: object) -> Logged:
    """Convert a logged request and its response; `response` None: no response was logged.

    Raises:
        NotSendableError: the request cannot be sent again, for example because nothing is asked.
    """
    if not isinstance(request, dict):
        raise NotSendableError("without a request", "the request is not an object")
    read = _chat if "messages" in request else _text_to_continue
    line, answer, notes = read(request, response)
    answered = response if isinstance(response, dict) else {}
    return Logged(
        line=line,
        answer=answer,
        notes=(*notes, *settings_not_kept(request)),
        model=model_name(request.get("model")) or model_name(answered.get("model")),
        time=logged_time(answered.get("created")),
    )


_Read = tuple[dict[str, Any], str | None, list[str]]


def _chat(request: Mapping[str, Any], response: object) -> _Read:
    if request.get("system"):
        raise NotSendableError("with system beside messages (--format anthropic)", "system")
    beside = {**max_tokens_of(request), **_tools(request)}
    messages, notes = _messages(request["messages"])
    question, last = without_last_answer(messages)
    if last is not None and response is not None:
        raise NotSendableError("with the answer's begin", "the assistant's words come last")
    answer = last if response is None else answer_of(response)
    return {"messages": question, **beside}, answer, notes


def _text_to_continue(request: Mapping[str, Any], response: object) -> _Read:
    text = request.get("prompt", request.get("inputs"))
    if not isinstance(text, str):
        raise NotSendableError("without messages or prompt", "neither messages nor a prompt")
    notes = ["without messages, taken as texts to continue, which get no chat template"]
    if request.get("response_format") is not None:
        notes.append("with response_format, which is not kept of a text to continue")
    return {"text_to_continue": text, **max_tokens_of(request)}, answer_of(response), notes


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
        text = message_text(message) if isinstance(message, dict) else choice.get("text")
    else:
        text = response.get("generated_text")
    return text if isinstance(text, str) and text else None


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


def without_last_answer(
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
    return question, message_text(messages[-1])


def max_tokens_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return `max_tokens`, whatever its name in the request; empty: the request has no limit."""
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


def settings_not_kept(request: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note for each setting of a request that is not the default."""
    parameters = request.get("parameters")
    for place in (request, parameters if isinstance(parameters, dict) else {}):
        for name, usual in _SETTINGS.items():
            if place.get(name) not in (None, usual, [], {}):
                yield f"with {name}, which is not kept"
