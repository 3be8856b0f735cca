"""Reads rows of tables (CSV), and records whose keys are named by the user (`--map`)."""

from dataclasses import dataclass
from typing import Any

from draftworth.errors import PromptSetError
from draftworth.importing.chat_log import Logged
from draftworth.importing.forms.public_sets import alpaca, question_of
from draftworth.importing.log_form import LogForm, Value
from draftworth.importing.messages import decoded
from draftworth.importing.record_paths import MISSING, at_path
from draftworth.importing.recorded import Recorded, converted
from draftworth.records.chat import NotSendableError
from draftworth.untrusted import one_line

# What a record may have, and the usual names of its column in a table, the first one there counts.
COLUMNS: dict[str, tuple[str, ...]] = {
    "messages": ("messages", "conversation"),
    "prompt": ("prompt", "question", "query", "instruction", "user", "input", "text"),
    "system": ("system", "system_prompt"),
    "output": ("output", "response", "answer", "completion"),
    "model": ("model", "model_name"),
    "time": ("timestamp", "time", "created_at", "date"),
    "max_tokens": ("max_tokens",),
    "case": ("category", "case"),
}
_MOST_PARTS = 12


def table_row(value: Value) -> Logged:
    """Read a row of a table by the usual names of columns, whatever their case."""
    row = {name.strip().lower().replace(" ", "_"): cell for name, cell in value.items()}
    if row.get("instruction") and row.get("input"):
        return alpaca(row)
    cells = {
        name: next((row[column] for column in columns if row.get(column)), None)
        for name, columns in COLUMNS.items()
    }
    return _converted(cells)


@dataclass(frozen=True)
class FieldPaths:
    """Where the parts of a request are in a record of any form: paths, by the names in COLUMNS."""

    paths: tuple[tuple[str, tuple[str, ...]], ...]

    def read(self, value: Value) -> Logged:
        """Read the parts of a record that are at the paths."""
        parts = {name: at_path(value, path) for name, path in self.paths}
        return _converted({n: None if item is MISSING else item for n, item in parts.items()})


def field_paths(options: list[str]) -> FieldPaths:
    """Return the paths of options such as `messages=inputs.messages`.

    PromptSetError: one is no such option, or is there twice, or none says what was asked.
    """
    paths: dict[str, tuple[str, ...]] = {}
    for option in options:
        name, _, path = option.partition("=")
        parts = tuple(path.split("."))
        if name not in COLUMNS or name in paths or "" in parts or len(parts) > _MOST_PARTS:
            raise _wrong_map(one_line(repr(option), characters=80))
        paths[name] = parts
    if ("messages" in paths) == ("prompt" in paths):
        raise _wrong_map("both" if "prompt" in paths else "neither messages nor prompt")
    return FieldPaths(tuple(paths.items()))


def _wrong_map(option: str) -> PromptSetError:
    return PromptSetError(
        f"--map: given {option}; allowed: NAME=PATH, each of {', '.join(COLUMNS)} at most once, "
        "messages or prompt among them, and as PATH keys with dots between them (numbers in "
        "lists); next: for example --map messages=inputs.messages --map output=outputs.text"
    )


def _converted(cells: dict[str, Any]) -> Logged:
    messages = decoded(cells.get("messages"))
    if isinstance(messages, str):
        raise NotSendableError("with messages that are not JSON", "messages: a text")
    if messages is None:
        prompt = cells.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise NotSendableError("without messages or prompt", "neither messages nor a prompt")
        messages = question_of(prompt)
    tokens = cells.get("max_tokens")
    if isinstance(tokens, str) and tokens.isdecimal() and len(tokens) < 10:
        tokens = int(tokens)
    return converted(
        Recorded(
            messages=messages,
            settings={"max_tokens": tokens},
            **{n: cells.get(n) for n in ("system", "model", "time", "case")},
            answer=cells.get("output"),
        )
    )


CSV = LogForm(read=table_row, has_cases=True)
