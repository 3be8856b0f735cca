"""From a log to the prompt files of a class: read, checked, sampled, written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftworth.errors import PromptSetError
from draftworth.importing.chat_log import Logged
from draftworth.importing.formats import FORMATS, Format
from draftworth.importing.sample import Candidate, Sample
from draftworth.importing.source import Record, records_of
from draftworth.records.chat import NotSendableError
from draftworth.records.checkpoints import replace_file
from draftworth.records.prompts import (
    CASE_SUFFIX,
    MAX_FILE_BYTES,
    MAX_LINE_BYTES,
    MAX_PROMPT_BYTES,
    answers_path,
    prompt_of,
)
from draftworth.untrusted import MIB

MAX_CASES = 100
_LONGEST_CASE = 40
_ID = "{case}-{number:06d}"
_LONGEST_ID = 100  # with its key, in bytes

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to import: `max_prompts` of each case, drawn with the seed.

    case: the one case; None: by the set's categories where it has them, else named as the source.
    """

    source: Path
    format: str
    out: Path
    prompt_class: str
    case: str | None
    max_prompts: int
    seed: int

    def path_of(self, case: str) -> Path:
        """A case's prompt file."""
        return self.out / self.prompt_class / f"{case}{CASE_SUFFIX}"


@dataclass(kw_only=True)
class Count:
    """How many, and where the first one was."""

    count: int
    first: str


@dataclass(frozen=True, kw_only=True)
class ImportedCase:
    """A case that was written, and how its prompts were drawn.

    most_tokens: the largest `max_tokens` of its prompts; None: none has its own.
    """

    path: Path
    prompts: int
    answers: int
    repeats: int
    not_drawn: int
    most_tokens: int | None


@dataclass(kw_only=True)
class _Read:
    """What reading found: samples by case, what was left out and what was changed, by reason."""

    records: int = 0
    samples: dict[str, Sample] = field(default_factory=dict)
    left_out: dict[str, Count] = field(default_factory=dict)
    notes: dict[str, Count] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What came of an import."""

    records: int
    cases: tuple[ImportedCase, ...]
    left_out: Mapping[str, Count]
    notes: Mapping[str, Count]


def import_prompts(order: Order, progress: Progress) -> Imported:
    """Read the source and write the class's files; existing files stay.

    Raises:
        PromptSetError: the source cannot be read, has no prompt, or too much of it; or a file is
            there already.
    """
    if order.case is not None or order.format != "speed-bench":
        _refuse_existing(order.path_of(_only_case(order)))
    read = _read(order, progress)
    if not read.samples:
        raise PromptSetError(
            f"{order.source}: no prompt in {read.records:,} records of the form {order.format}; "
            f"{described('left out', read.left_out)}; next: --format, one of {', '.join(FORMATS)}"
        )
    for case in read.samples:
        _refuse_existing(order.path_of(case))
    cases = tuple(_write(order, case, sample) for case, sample in sorted(read.samples.items()))
    return Imported(records=read.records, cases=cases, left_out=read.left_out, notes=read.notes)


def described(what: str, counts: Mapping[str, Count]) -> str:
    """`3 left out: 2 with images (the first: line 4), 1 no JSON object (line 17)`."""
    total = sum(each.count for each in counts.values())
    parts = (
        f"{each.count:,} {reason} ({'the first: ' if each.count > 1 else ''}{each.first})"
        for reason, each in counts.items()
    )
    return f"{total:,} {what}" + (f": {', '.join(parts)}" if total else "")


def _read(order: Order, progress: Progress) -> _Read:
    read, understand = _Read(), FORMATS[order.format]
    for record in records_of(order.source):
        read.records += 1
        progress(read.records)
        try:
            entry = _understood(record, understand)
            content, candidate = _candidate(entry, record)
        except NotSendableError as error:
            _add(read.left_out, error.kind, record.place)
            continue
        for note in entry.notes:
            _add(read.notes, note, record.place)
        _sample(read, _case_of(order, entry), order).offer(content, candidate)
        _check_size(order, read)
    return read


def _understood(record: Record, understand: Format) -> Logged:
    if record.problem:
        raise NotSendableError(record.problem, record.problem)
    return understand(record.value)


def _add(counts: dict[str, Count], reason: str, place: str) -> None:
    counts.setdefault(reason, Count(count=0, first=place)).count += 1


def _candidate(entry: Logged, record: Record) -> tuple[bytes, Candidate]:
    """What makes it the same prompt as another one, and what may be drawn."""
    prompt_of({"id": "checked", **entry.line})
    sizes = [len(_json(part)) + _LONGEST_ID for part in (entry.line, entry.answer)]
    if max(sizes) > MAX_LINE_BYTES:
        raise NotSendableError(f"longer than {MAX_LINE_BYTES // MIB} MiB", "too long")
    asked = {name: value for name, value in entry.line.items() if name != "max_tokens"}
    candidate = Candidate(
        number=record.number, line=entry.line, answer=entry.answer, size_bytes=sum(sizes)
    )
    return json.dumps(asked, sort_keys=True).encode(), candidate


def _sample(read: _Read, case: str, order: Order) -> Sample:
    if case not in read.samples:
        if len(read.samples) == MAX_CASES:
            raise PromptSetError(
                f"{order.source}: more than {MAX_CASES} categories; next: --case NAME puts all "
                "prompts into one case"
            )
        read.samples[case] = Sample(order.max_prompts, seed=order.seed)
    return read.samples[case]


def _check_size(order: Order, read: _Read) -> None:
    """What is held in memory, and what a prompt file and a load generator can hold."""
    sizes = [sample.size_bytes for sample in read.samples.values()]
    if max(sizes) > MAX_FILE_BYTES or sum(sizes) > MAX_PROMPT_BYTES:
        raise PromptSetError(
            f"{order.source}: --max-prompts: given {order.max_prompts:,}, and so many prompts with "
            f"their answers take more than {MAX_FILE_BYTES // MIB} MiB in a case or "
            f"{MAX_PROMPT_BYTES // MIB} MiB in all; next: a smaller --max-prompts"
        )


def _case_of(order: Order, entry: Logged) -> str:
    if order.case is None and entry.case is not None:
        return _as_name(entry.case)
    return _only_case(order)


def _only_case(order: Order) -> str:
    return order.case or _as_name(order.source.resolve().stem)


def _as_name(text: str) -> str:
    """A case's name: lower-case letters, digits, hyphens and underscores."""
    name = re.sub(r"[^a-z0-9]+", "_", text[:200].lower())
    return name.strip("_")[:_LONGEST_CASE] or "case"


def _refuse_existing(path: Path) -> None:
    for file in (path, answers_path(path)):
        if file.exists():
            raise PromptSetError(
                f"{file}: is there already; nothing is written over; next: another --class or "
                "--case, or move the file away"
            )


def _write(order: Order, case: str, sample: Sample) -> ImportedCase:
    path, drawn = order.path_of(case), sample.drawn
    ids = [_ID.format(case=case, number=candidate.number) for candidate in drawn]
    named = list(zip(ids, drawn, strict=True))
    answers = [{"id": i, "text": c.answer} for i, c in named if c.answer is not None]
    _write_lines(path, [{"id": i, **c.line} for i, c in named])
    if answers:
        _write_lines(answers_path(path), answers)
    return ImportedCase(
        path=path,
        prompts=len(drawn),
        answers=len(answers),
        repeats=sample.repeats,
        not_drawn=sample.not_drawn,
        most_tokens=max(
            (c.line["max_tokens"] for c in drawn if "max_tokens" in c.line), default=None
        ),
    )


def _write_lines(path: Path, values: list[dict[str, Any]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, b"".join(_json(value) + b"\n" for value in values))
    except OSError as error:
        raise PromptSetError(f"{path}: cannot be written: {error.strerror}") from error


def _json(value: object) -> bytes:
    """On one line, letters of every language as they are."""
    return json.dumps(value, ensure_ascii=False).encode()
