"""Says what a log has that none of its records was imported from, and how to import it."""

from collections.abc import Iterable, Mapping
from typing import Any

from draftworth.importing.forms.tables import COLUMNS, FieldPaths
from draftworth.importing.log_form import LogForm
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.messages import answer_text, decoded
from draftworth.importing.record_paths import MOST_LEVELS, named_values
from draftworth.records.chat import NotSendableError
from draftworth.records.prompt_files import prompt_of
from draftworth.untrusted import one_line

_MOST_RECORDS, _MOST_PATHS, _CHARACTERS = 10, 20, 600
_Paths = Mapping[str, str]


class KeysSeen:
    """The keys of the first records that were left out, and what would read these records."""

    def __init__(self) -> None:
        self._records = 0
        self._keys: dict[str, None] = {}
        self._reads: dict[str, int] = {}
        self._paths: _Paths = {}

    def add(self, value: Mapping[str, Any]) -> None:
        """Look at a record that was left out; only the first ones count."""
        if not value or self._records == _MOST_RECORDS:
            return
        self._records += 1
        for path, inner in named_values(value):
            is_deepest = path.count(".") == MOST_LEVELS - 1
            if is_deepest or not isinstance(inner, dict | list):
                self._keys.setdefault(path)
        for name, form in FORMATS.items():
            if _reads(form, value):
                self._reads[name] = self._reads.get(name, 0) + 1
        self._paths = self._paths or _paths_that_read(value)

    def next_step(self) -> str:
        """Return what to try, in words for an error."""
        formats = f"--format, one of {', '.join(FORMATS)}"
        if not self._keys:
            return f"no record with names of keys (a table's file ends with .csv); next: {formats}"
        keys = one_line(", ".join([*self._keys][:_MOST_PATHS]), characters=_CHARACTERS)
        if self._reads:
            # Forms have much in common: the first of those that read nearly as much as any.
            most = max(self._reads.values())
            best = next(name for name in FORMATS if 2 * self._reads.get(name, 0) >= most)
            step = f"--format {best}, which reads {self._reads[best]} of the first {self._records}"
        else:
            paths = self._paths or {"prompt": "KEY", "output": "KEY"}
            options = " ".join(f"--map {name}={path}" for name, path in paths.items())
            step = f"`draftworth prompts import` with {options}; or {formats}"
        return f"keys of the first: {keys}; next: {step}"


def _reads(form: LogForm, value: Mapping[str, Any]) -> bool:
    try:
        return any(_is_prompt(form, part) for part in form.parts(value))
    except NotSendableError:
        return False


def _is_prompt(form: LogForm, part: Mapping[str, Any]) -> bool:
    try:
        prompt_of({"id": "tried", **form.read(part).line})
    except NotSendableError:
        return False
    return True


def _paths_that_read(value: Mapping[str, Any]) -> _Paths:
    """Return the paths of a prompt, and of its output, with which the record can be imported."""
    values = [*named_values(value)]
    for name in ("messages", "prompt"):
        for path, inner in values:
            is_messages = isinstance(decoded(inner), list)
            is_one = is_messages if name == "messages" else _last_key(path, name)
            if is_one and _reads(_mapped({name: path}), value):
                return {name: path, **_output_path(values, path)}
    return {}


def _output_path(values: Iterable[tuple[str, Any]], question: str) -> _Paths:
    elsewhere = [
        (path, inner)
        for path, inner in values
        if not (path.startswith(question) or question.startswith(path)) and answer_text(inner)
    ]
    named = [path for path, _ in elsewhere if _last_key(path, "output")]
    objects = [path for path, inner in elsewhere if isinstance(inner, dict)]
    best = next(iter((*named, *objects)), None)
    return {} if best is None else {"output": best}


def _last_key(path: str, name: str) -> bool:
    return path.rpartition(".")[2].lower() in COLUMNS[name]


def _mapped(paths: _Paths) -> LogForm:
    parts = tuple((name, tuple(path.split("."))) for name, path in paths.items())
    return LogForm(read=FieldPaths(parts).read)
