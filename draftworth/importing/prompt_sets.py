"""Imports a log: reads, checks and samples its prompts, and writes the prompt files of a class."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from draftworth.errors import PromptSetError
from draftworth.importing.chat_log import Logged
from draftworth.importing.forms.tables import FieldPaths
from draftworth.importing.log_files import Record, records_of
from draftworth.importing.log_form import LogForm
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.sampling import LoggedPrompt, PromptSample
from draftworth.importing.unknown_forms import KeysSeen
from draftworth.records import prompt_files
from draftworth.records.chat import NotSendableError
from draftworth.safe_writing import write_file
from draftworth.untrusted import MIB

MAX_CASES = MAX_MODELS = 100
# A log may have millions of records; a service that changes its models later is not seen.
_RECORDS_WITH_MODELS = 1000
_LONGEST_CASE = 40
_ID = "{case}-{number:06d}"
_LONGEST_ID = 100  # bytes that an id takes in a line of a prompt file, with its key

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class ImportOrder:
    """The options of an import.

    format: a key of `FORMATS`, or where the parts of a request are in a record.
    out: the folder of all prompt classes; the files are written into its folder `prompt_class`.
    case: the name of the only case; None: one case for each category of the log, and a single case
        with the name of `source` if the log has none.
    max_prompts: the most prompts that are drawn for each case. seed: decides which are drawn.
    """

    source: Path
    format: str | FieldPaths
    out: Path
    prompt_class: str
    case: str | None = None
    max_prompts: int = 64
    seed: int = 0

    @property
    def form(self) -> LogForm:
        if isinstance(self.format, FieldPaths):
            return LogForm(read=self.format.read, has_cases=True)
        return FORMATS[self.format]

    @property
    def form_words(self) -> str:
        is_form = isinstance(self.format, str)
        return f"of the form {self.format}" if is_form else "at the paths of --map"

    @property
    def folder(self) -> Path:
        return self.out / self.prompt_class

    def path_of(self, case: str) -> Path:
        return self.folder / f"{case}{prompt_files.CASE_SUFFIX}"


@dataclass(kw_only=True)
class Count:
    """How many records have the same problem or note, and the place of the first (`line 4`)."""

    count: int
    first: str


@dataclass(kw_only=True)
class Imported:
    """The result of an import.

    records: how many were read. samples: the drawn prompts, by the name of their case.
    left_out: {reason: how many records were left out for it}.
    notes: {change: how many records were imported with it}, such as a setting that was dropped.
    models: {name: how many records name it as the model that was asked}.
    times: when the first and the last of the imported records were asked; empty: no record says it.
    """

    records: int = 0
    samples: dict[str, PromptSample] = field(default_factory=dict)
    left_out: dict[str, Count] = field(default_factory=dict)
    notes: dict[str, Count] = field(default_factory=dict)
    models: Counter[str] = field(default_factory=Counter)
    times: tuple[datetime, ...] = ()


def import_prompts(order: ImportOrder, progress: Progress) -> Imported:
    """Read a log and write its prompt files, and return what was read.

    progress: called with the number of records read so far.

    Raises:
        PromptSetError: the log cannot be read, has no prompt or exceeds a limit, or a file that
            would be written exists. Existing files are never changed.
    """
    imported = read_log(order, progress)
    write_prompts(order, imported)
    return imported


def read_log(order: ImportOrder, progress: Progress) -> Imported:
    """Read a log and draw a sample of its prompts for each case, but write nothing.

    progress: called with the number of records read so far.
    PromptSetError: as for `import_prompts`.
    """
    if order.case is not None or not order.form.has_cases:
        _refuse_existing(order.path_of(_only_case(order)))
    read, seen = Imported(), KeysSeen()
    for record in records_of(order.source):
        for part, value in _parts(record, order.form):
            read.records += 1
            progress(read.records)
            if not _import(order, read, part, value):
                seen.add(value)
    if not read.samples:
        raise PromptSetError(
            f"{order.source}: no prompt in {read.records:,} records {order.form_words}; "
            f"{left_out_words(read.left_out)}; {seen.next_step()}"
        )
    return read


def models_named_in(source: Path, form: str) -> tuple[str, ...]:
    """Return the models that a log's first requests were sent to, each once.

    form: a key of `FORMATS`. PromptSetError: the log cannot be read.
    """
    models: dict[str, None] = {}
    for record in islice(records_of(source), _RECORDS_WITH_MODELS):
        for part, value in _parts(record, FORMATS[form]):
            with suppress(NotSendableError):
                if not part.problem and (model := FORMATS[form].read(value).model):
                    models[model] = None
    return tuple(models)


def write_prompts(order: ImportOrder, imported: Imported) -> None:
    """Write the drawn prompts of a log, one file for each case.

    imported: what `read_log` returned. PromptSetError: one of the files exists already, or cannot
    be written.
    """
    for case in imported.samples:
        _refuse_existing(order.path_of(case))
    for case, sample in imported.samples.items():
        _write(order, case, sample)


def left_out_words(counts: Mapping[str, Count]) -> str:
    """Return `3 left out: 2 with images (the first: line 4), 1 not a JSON object (line 17)`.

    counts: how many records of a log were left out, by reason.
    """
    total = sum(each.count for each in counts.values())
    parts = (
        f"{each.count:,} {reason} ({'the first: ' if each.count > 1 else ''}{each.first})"
        for reason, each in counts.items()
    )
    return f"{total:,} left out" + (f": {', '.join(parts)}" if total else "")


def _parts(record: Record, form: LogForm) -> Iterator[tuple[Record, Mapping[str, Any]]]:
    """Yield each request of a record, with the place of the request."""
    if record.problem:
        yield record, record.value
        return
    parts = [*form.parts(record.value)]
    for number, value in enumerate(parts, start=1):
        place = record.place if len(parts) == 1 else f"{record.place}, request {number}"
        yield replace(record, place=place), value
    if not parts:
        yield replace(record, problem="without requests"), record.value


def _import(order: ImportOrder, read: Imported, record: Record, value: Mapping[str, Any]) -> bool:
    """Add a request to what is read, or to what is left out; return whether it was added."""
    if record.problem:
        _add(read.left_out, record.problem, record.place)
        return False
    try:
        entry = order.form.read(value)
        content, candidate = _candidate(entry, read.records)
    except NotSendableError as error:
        _add(read.left_out, error.kind, record.place)
        return False
    for note in entry.notes:
        _add(read.notes, note, record.place)
    _add_provenance(read, entry)
    by_category = order.case is None and entry.case is not None
    case = as_name(entry.case or "") if by_category else _only_case(order)
    _sample(read, case, order).offer(content, candidate)
    _check_size(order, read)
    return True


def _add_provenance(read: Imported, entry: Logged) -> None:
    if entry.model is not None and (entry.model in read.models or len(read.models) < MAX_MODELS):
        read.models[entry.model] += 1
    if entry.time is not None:
        times = (*read.times, entry.time)
        read.times = (min(times), max(times))


def _add(counts: dict[str, Count], reason: str, place: str) -> None:
    counts.setdefault(reason, Count(count=0, first=place)).count += 1


def _candidate(entry: Logged, number: int) -> tuple[bytes, LoggedPrompt]:
    prompt_files.prompt_of({"id": "checked", **entry.line})
    sizes = [len(_json(part)) + _LONGEST_ID for part in (entry.line, entry.answer)]
    if max(sizes) > prompt_files.MAX_LINE_BYTES:
        raise NotSendableError(f"longer than {prompt_files.MAX_LINE_BYTES // MIB} MiB", "too long")
    content = {name: value for name, value in entry.line.items() if name != "max_tokens"}
    candidate = LoggedPrompt(
        number=number, line=entry.line, answer=entry.answer, size_bytes=sum(sizes)
    )
    return json.dumps(content, sort_keys=True).encode(), candidate


def _sample(read: Imported, case: str, order: ImportOrder) -> PromptSample:
    if case not in read.samples:
        if len(read.samples) == MAX_CASES:
            raise PromptSetError(
                f"{order.source}: more than {MAX_CASES} categories; next: --case NAME puts all "
                "prompts into one case"
            )
        read.samples[case] = PromptSample(order.max_prompts, seed=order.seed)
    return read.samples[case]


def _check_size(order: ImportOrder, read: Imported) -> None:
    sizes = [sample.size_bytes for sample in read.samples.values()]
    if max(sizes) > prompt_files.MAX_FILE_BYTES or sum(sizes) > prompt_files.MAX_PROMPT_BYTES:
        raise PromptSetError(
            f"{order.source}: --max-prompts: given {order.max_prompts:,}, and so many prompts with "
            f"their answers take more than {prompt_files.MAX_FILE_BYTES // MIB} MiB in a case or "
            f"{prompt_files.MAX_PROMPT_BYTES // MIB} MiB in all; next: a smaller --max-prompts"
        )


def _only_case(order: ImportOrder) -> str:
    # Not Path.resolve(), which raises for a symbolic link to itself.
    return order.case or as_name(Path(os.path.realpath(order.source)).stem)


def as_name(text: str) -> str:
    """Return a name for a case or a prompt class (only a-z, 0-9 and _), made from any text."""
    name = re.sub(r"[^a-z0-9]+", "_", text[:200].lower())
    return name.strip("_")[:_LONGEST_CASE] or "case"


def _refuse_existing(path: Path) -> None:
    for file in (path, prompt_files.answers_path(path)):
        if file.exists():
            raise PromptSetError(
                f"{file}: exists already, and is not overwritten; next: another --class or "
                "--case, or move the file away"
            )


def _write(order: ImportOrder, case: str, sample: PromptSample) -> None:
    path = order.path_of(case)
    named = [(_ID.format(case=case, number=c.number), c) for c in sample.drawn]
    _write_lines(order.out, path, [{"id": i, **c.line} for i, c in named])
    if answers := [{"id": i, "text": c.answer} for i, c in named if c.answer is not None]:
        _write_lines(order.out, prompt_files.answers_path(path), answers)


def _write_lines(root: Path, path: Path, values: list[dict[str, Any]]) -> None:
    lines = b"".join(_json(value) + b"\n" for value in values)
    try:
        write_file(path, lines, root=root, private=True)
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be written: {error.strerror}") from error


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
