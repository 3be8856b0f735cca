"""Reads public sets: ShareGPT, SPEED-Bench, Spec-Bench and Alpaca.

Sources: SPEED-Bench, data card (question_id, category, turns) and NeMo-Skills' prepare.py, which
writes messages instead of turns; Spec-Bench, question.jsonl (question_id, category, turns);
Stanford Alpaca, alpaca_data.json (instruction, input, output).
"""

from typing import Any

from draftworth.importing.chat_log import Logged
from draftworth.importing.log_form import LogForm, Value
from draftworth.importing.recorded import Recorded, converted
from draftworth.records.chat import NotSendableError, wrong_form

# SPEED-Bench has this text in the place of prompts that it must not publish itself.
_PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED"
_ASKERS, _ANSWERERS = ("human", "user"), ("gpt", "chatgpt", "assistant", "model", "bard", "bing")


def sharegpt(value: Value) -> Logged:
    """Read a conversation of a ShareGPT file: its first question and the answer to that.

    vLLM's benchmark takes the same two turns.
    """
    turns = value.get("conversations")
    if not isinstance(turns, list) or not all(map(_is_turn, turns)):
        raise wrong_form("conversations: not a list of turns")
    system, rest = (turns[:1], turns[1:]) if turns and turns[0]["from"] == "system" else ([], turns)
    if not rest or rest[0]["from"] not in _ASKERS:
        raise NotSendableError("without a question", "the first turn asks nothing")
    messages = [{"role": "system", "content": turn["value"]} for turn in system]
    messages.append({"role": "user", "content": rest[0]["value"]})
    answered = len(rest) > 1 and rest[1]["from"] in _ANSWERERS
    return Logged(
        line={"messages": messages}, answer=rest[1]["value"] or None if answered else None
    )


def speed_bench(value: Value) -> Logged:
    """Read the first turn of a SPEED-Bench or Spec-Bench record; its category names the case."""
    messages = value.get("messages")
    if messages is None:
        turns = value.get("turns")
        if not isinstance(turns, list) or not turns:
            raise NotSendableError("without messages or turns", "neither messages nor turns")
        messages = [{"role": "user", "content": turn} for turn in turns]
    first, left = _up_to_first_question(messages)
    if any(_PLACEHOLDER in str(message.get("content")) for message in first):
        raise NotSendableError(
            "with a placeholder for the text, which the set's prepare.py fills in", "no text"
        )
    category = value.get("category")
    notes = ("of several turns, of which the first is taken",) if left else ()
    case = category if isinstance(category, str) else None
    return Logged(line={"messages": first}, answer=None, case=case, notes=notes)


def alpaca(value: Value) -> Logged:
    """Read an instruction and its input, which follows it after an empty line.

    The sentence in which Alpaca's training wrapped both is left out: it was that model's template.
    """
    texts = [value.get("instruction"), value.get("input") or ""]
    if not all(isinstance(text, str) for text in texts) or not texts[0]:
        raise NotSendableError("without an instruction", "no instruction as text")
    question = "\n\n".join(text for text in texts if text)
    return converted(Recorded(messages=question_of(question), answer=value.get("output")))


def question_of(text: object) -> list[dict[str, Any]]:
    """Return the messages of one question, whose text is not taken for JSON."""
    return [{"role": "user", "content": text}]


def _is_turn(turn: object) -> bool:
    return (
        isinstance(turn, dict)
        and isinstance(turn.get("from"), str)
        and isinstance(turn.get("value"), str)
    )


def _up_to_first_question(messages: object) -> tuple[list[dict[str, Any]], int]:
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise wrong_form("messages: not a list of objects")
    for index, message in enumerate(messages):
        if message.get("role") == "user":
            return messages[: index + 1], len(messages) - index - 1
    raise NotSendableError("without a question", "no message of a user")


SHAREGPT = LogForm(read=sharegpt)
SPEED_BENCH = LogForm(read=speed_bench, has_cases=True)
ALPACA = LogForm(read=alpaca)
