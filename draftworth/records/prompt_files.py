"""Reads prompt sets and logged answers: JSON Lines, a file for each case, a folder for each class.

A line is `{"id": "count-01", "prompt": "Count from ..."}`. For a conversation it is
`{"id": "chat-01", "messages": [{"role": "user", "content": "..."}]}`, and for a text that is sent
without a chat template `{"id": "text-01", "text_to_continue": "Once upon"}`. Each line may also
have `max_tokens`; the first two kinds may have `tools`, `tool_choice` and `response_format` too.

An answer is a past output of a model, `{"id": "chat-000017", "text": "..."}`. Answers are in their
own folder, because every JSON Lines file of a class's folder is a case.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from draftworth.errors import PromptSetError, suggestion
from draftworth.records import chat
from draftworth.records.codec import Between, Checked, RecordError, load_object, load_record
from draftworth.records.logged_traffic import hash_of_choice, record_of_choice
from draftworth.untrusted import MIB, TooLargeError, one_line, open_file

CASE_SUFFIX = ".jsonl"
# The largest size of all prompts of an experiment together, as JSON. It is limited because the
# measuring Job has several copies of them in memory while it reads them.
MAX_PROMPT_BYTES = 128 * MIB
_EXAMPLE = 'a line is {"id": "count-01", "prompt": "Count from 1 to 200."}'
# One line can hold a conversation of a million tokens.
MAX_LINE_BYTES = 4 * MIB
MAX_FILE_BYTES = 64 * MIB
MAX_LINES = 100_000
# These names become parts of file names, of object keys and of metrics' dimensions.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
PLAIN_NAME_WORDS = (
    "1 to 64 letters, digits, spaces, dots, hyphens and underscores of ASCII, a letter or digit "
    "first"
)
# A line has exactly one key of `_CONTENT_KEYS`, and may also have those of `_CHAT_KEYS`.
_CONTENT_KEYS = ("prompt", "messages", "text_to_continue")
_CHAT_KEYS: Mapping[str, Callable[[object], Any]] = {
    "tools": chat.checked_tools,
    "tool_choice": chat.checked_tool_choice,
    "response_format": chat.checked_response_format,
}
# The largest `max_tokens` of a prompt, which is more than any model's context. The output length in
# an experiment file has the same limit.
_MOST_TOKENS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Prompt(Checked):
    """One prompt of a case: a conversation to be answered, or a text to be continued.

    messages: the conversation; empty if there is a text to continue.
    text_to_continue: sent unchanged, without a chat template.
    max_tokens: the limit of this prompt's output; None: the experiment's limit is used.
    tools, tool_choice, response_format: fields of the request, sent unchanged; None: not sent.
    """

    id: str
    messages: tuple[chat.Message, ...] = ()
    text_to_continue: str | None = None
    max_tokens: Annotated[int, Between(1, _MOST_TOKENS)] | None = None
    tools: tuple[Mapping[str, Any], ...] | None = None
    tool_choice: Any = None
    response_format: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.messages) == (self.text_to_continue is not None):
            raise ValueError("messages: allowed: one or more, or a text_to_continue instead")

    @property
    def texts(self) -> tuple[str, ...]:
        if self.text_to_continue is not None:
            return (self.text_to_continue,)
        return tuple(chat.texts_of(self.messages))


@dataclass(frozen=True, kw_only=True)
class Case:
    """One prompt file of a prompt class, with its prompts.

    chosen_by: the SHA-256 of the record with which `prompts choose` chose them; empty without one.
    """

    prompt_class: str
    name: str
    prompts: tuple[Prompt, ...]
    chosen_by: str = ""


def load_case(path: Path, *, prompt_class: str, most_tokens: int | None = None) -> Case:
    """Read one prompt file; raise PromptSetError if the file or a line is wrong.

    most_tokens: the highest `max_tokens` that a line may have; None: 10 million.
    """
    _check_names(path, prompt_class)
    try:
        with open_file(path) as file:
            prompts = tuple(
                _parse_line(line, where, most_tokens) for where, line in lines_of(file, path)
            )
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    if not prompts:
        raise PromptSetError(f"{path}: no prompts; allowed: one or more lines; {_EXAMPLE}")
    counts = Counter(prompt.id for prompt in prompts)
    if len(counts) < len(prompts):
        twice = sorted(prompt_id for prompt_id, count in counts.items() if count > 1)
        raise PromptSetError(
            f"{path}: ids given twice: {one_line(', '.join(twice))}; allowed: ids that are unique "
            "in the file, because results are paired by them"
        )
    chosen_by = _hash_of_choice(path)
    return Case(prompt_class=prompt_class, name=path.stem, prompts=prompts, chosen_by=chosen_by)


def _hash_of_choice(path: Path) -> str:
    try:
        return hash_of_choice(path)
    except (OSError, TooLargeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise PromptSetError(
            f"{one_line(str(record_of_choice(path)))}: cannot be read: {reason}; allowed: the "
            "record that `draftworth prompts choose` wrote, whose hash the run keeps; next: choose "
            "again, or move it away, if nothing is to be said about the whole log"
        ) from error


def is_plain_name(text: str) -> bool:
    """Return whether a name can be a part of file names, of object keys and of metrics."""
    return _PLAIN_NAME.fullmatch(text) is not None


def _check_names(path: Path, prompt_class: str) -> None:
    for what, name in (("a prompt class", prompt_class), ("a case", path.stem)):
        if not is_plain_name(name):
            raise PromptSetError(
                f"{one_line(str(path))}: the name of {what}: given {one_line(repr(name))}; "
                f"allowed: {PLAIN_NAME_WORDS}, because it is part of file names and of metrics; "
                "rename the file, or the folder that it lies in"
            )


def lines_of(file: BinaryIO, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (`PATH:NUMBER`, line) of non-empty lines; raise PromptSetError for too large a file."""
    size_bytes = 0
    for number in count(1):
        line = file.readline(MAX_LINE_BYTES + 1)
        size_bytes += len(line)
        if not line:
            return
        for amount, allowed, what in (
            (len(line), MAX_LINE_BYTES, "bytes in this line"),
            (size_bytes, MAX_FILE_BYTES, "bytes up to here"),
            (number, MAX_LINES, "lines"),
        ):
            if amount > allowed:
                raise PromptSetError(
                    f"{path}:{number}: more than {allowed:,} {what}; take a sample of the prompts, "
                    "or several files"
                )
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if line.strip():
            yield f"{path}:{number}", line


def _parse_line(line: bytes, where: str, most_tokens: int | None) -> Prompt:
    try:
        return prompt_of(load_object(line, keys_once=True), most_tokens=most_tokens)
    except RecordError as error:
        raise PromptSetError(
            f"{where}: {error}; {_EXAMPLE}; next: `draftworth prompts import` writes such lines "
            "from a log"
        ) from error
    except chat.NotSendableError as error:
        raise PromptSetError(f"{where}: {error}") from error


def prompt_of(value: Mapping[str, Any], *, most_tokens: int | None = None) -> Prompt:
    """Return the prompt in the JSON object of one line of a prompt file.

    NotSendableError is raised if the object has wrong keys, or the prompt cannot be sent.
    most_tokens: the highest `max_tokens` that the line may have; None: 10 million.
    """
    _check_keys(value)
    prompt_id = value["id"]
    if not (isinstance(prompt_id, str) and prompt_id.isprintable() and 0 < len(prompt_id) <= 200):
        raise chat.wrong_form(
            f"id: given {_excerpt(prompt_id)}; allowed: text of 1 to 200 characters; {_EXAMPLE}"
        )
    return Prompt(
        id=prompt_id,
        **_content(value),
        max_tokens=_max_tokens(value, most_tokens),
        **{name: check(value[name]) for name, check in _CHAT_KEYS.items() if name in value},
    )


def _check_keys(value: Mapping[str, Any]) -> None:
    content_keys = [name for name in _CONTENT_KEYS if name in value]
    beside = {"max_tokens"} | ({*_CHAT_KEYS} if content_keys != ["text_to_continue"] else set())
    unknown = value.keys() - {"id", *content_keys} - beside
    if "id" not in value or len(content_keys) != 1 or unknown:
        near = suggestion(min(unknown), ("id", *_CONTENT_KEYS, *beside)) if unknown else ""
        raise chat.wrong_form(
            f"given: {one_line(', '.join(sorted(value)))}{near}; allowed: the keys id and prompt, "
            "or id and messages, or id and text_to_continue, each with max_tokens beside it, and "
            f"the first two with {', '.join(_CHAT_KEYS)}; {_EXAMPLE}",
        )
    if "tool_choice" in value and "tools" not in value:
        raise chat.wrong_form("tool_choice: allowed: only beside tools")


def _content(value: Mapping[str, Any]) -> dict[str, Any]:
    if "messages" in value:
        return {"messages": chat.checked_messages(value["messages"])}
    name = "prompt" if "prompt" in value else "text_to_continue"
    text = value[name]
    if not isinstance(text, str) or not text.strip():
        raise chat.NotSendableError(
            "without text", f"{name}: given {_excerpt(text)}; allowed: text; {_EXAMPLE}"
        )
    chat.check_plain(text, name)
    if name == "prompt":
        return {"messages": ({"role": "user", "content": text},)}
    return {"text_to_continue": text}


def _max_tokens(value: Mapping[str, Any], most: int | None) -> int | None:
    if "max_tokens" not in value:
        return None
    max_tokens, allowed = value["max_tokens"], _MOST_TOKENS if most is None else most
    if type(max_tokens) is not int or not 1 <= max_tokens <= allowed:
        reason = "" if most is None else ", which output_tokens says of every request"
        raise chat.NotSendableError(
            "with a max_tokens that is not a number of tokens",
            f"max_tokens: given {_excerpt(max_tokens)}; allowed: a whole number from 1 to "
            f"{allowed:,}{reason}",
        )
    return max_tokens


def _excerpt(value: object) -> str:
    return one_line(repr(value), characters=60)


ANSWERS_FOLDER = "answers"


@dataclass(frozen=True, kw_only=True)
class LoggedAnswer:
    """A logged answer to the prompt `id`; `text` is its content, followed by its tool calls."""

    id: str
    text: str


def answers_path(case: Path) -> Path:
    """Return the path of the answers to a case's prompts. case: the path of its prompt file."""
    return case.parent / ANSWERS_FOLDER / case.name


def load_answers(path: Path, prompt_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the texts in a file of logged answers, by prompt id.

    PromptSetError is raised if the file or a line is wrong, or if an answer's id is not one of
    `prompt_ids`, the ids in the prompt file.
    """
    expected_ids = {*prompt_ids}
    texts: dict[str, str] = {}
    try:
        with open_file(path) as file:
            for where, line in lines_of(file, path):
                answer = _answer(line, where)
                if answer.id not in expected_ids or answer.id in texts:
                    raise PromptSetError(
                        f"{where}: id: given {one_line(answer.id, characters=80)!r}; allowed: each "
                        "id of the prompt file at most once"
                    )
                texts[answer.id] = answer.text
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    return texts


def _answer(line: bytes, where: str) -> LoggedAnswer:
    try:
        return load_record(LoggedAnswer, line)
    except RecordError as error:
        raise PromptSetError(
            f'{where}: {error}; a line is {{"id": "chat-000017", "text": "Count to 200."}}'
        ) from error
