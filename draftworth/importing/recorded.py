"""Converts a recorded request, whose parts a log's form has found, to a line of a prompt file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftworth.importing.chat_log import (
    Logged,
    max_tokens_of,
    settings_not_kept,
    without_last_answer,
)
from draftworth.importing.messages import Messages, answer_text, read_messages
from draftworth.importing.provenance import logged_time, model_name
from draftworth.importing.tools import read_tools
from draftworth.records.chat import NotSendableError


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A request and its answer, each part as the log has it; None: the log does not have it.

    messages: what `read_messages` reads. system: the content of a message of the system, where the
        log has it apart from the others.
    answer: what `answer_text` reads.
    settings: max_tokens and those that change an output, such as temperature.
    model: the name of the model. time: when it was asked. case: the request's category.
    """

    messages: object
    system: object = None
    answer: object = None
    tools: object = None
    tool_choice: object = None
    response_format: object = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: object = None
    time: object = None
    case: object = None


def converted(recorded: Recorded) -> Logged:
    """Return a recorded request as a line of a prompt file, with its answer.

    NotSendableError: the request cannot be sent again, for example because nothing is asked.
    """
    read = _messages(recorded)
    question, last = without_last_answer(read.messages)
    if last is not None and recorded.answer is not None:
        raise NotSendableError("with the answer's begin", "the assistant's words come last")
    return Logged(
        line={
            "messages": question,
            **max_tokens_of(recorded.settings),
            **read_tools(recorded.tools, recorded.tool_choice),
            **_filled("response_format", recorded.response_format),
        },
        answer=last if recorded.answer is None else answer_text(recorded.answer),
        case=recorded.case if isinstance(recorded.case, str) and recorded.case else None,
        notes=(*read.notes, *settings_not_kept(recorded.settings)),
        model=model_name(recorded.model),
        time=logged_time(recorded.time),
    )


def _messages(recorded: Recorded) -> Messages:
    """Return all messages, first that of the system."""
    rest = read_messages(recorded.messages)
    if not rest.messages:
        raise NotSendableError("without messages", "no messages")
    if not recorded.system:
        return rest
    system = read_messages([{"role": "system", "content": recorded.system}])
    return Messages(messages=system.messages + rest.messages, notes=system.notes | rest.notes)


def _filled(name: str, value: object) -> dict[str, object]:
    return {} if value is None else {name: value}
