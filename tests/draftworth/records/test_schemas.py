"""A record's form changes within a major version only so that what was written before is read.

`test_golden.py` reads documents that were written; here every field counts, also of a kind or a
choice that no golden document has.
"""

from dataclasses import MISSING, Field, fields, is_dataclass
from enum import EnumType
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import yaml

from tests.draftworth.records.write_golden import KINDS
from tests.support.snapshot import assert_snapshot

RECORDS = [kind for kinds, _, _ in KINDS.values() for kind in kinds if hasattr(kind, "schema")]
FORMS = Path(__file__).parent / "snapshots" / "schemas.yaml"


def form_of(record: Any) -> dict[str, Any]:
    """Field names of a record, with those of the records in it; `name?` where it has a default."""
    hints = get_type_hints(record)
    return {
        f"{field.name}{_mark(field)}": _inner(hints[field.name])
        for field in fields(record)
        if field.name != "schema"
    }


def _mark(field: Field[Any]) -> str:
    return "" if field.default is MISSING and field.default_factory is MISSING else "?"


def _inner(kind: Any) -> Any:
    if is_dataclass(kind):
        return form_of(kind)
    if get_origin(kind) is Literal:
        return [*get_args(kind)]
    if isinstance(kind, EnumType):
        return [*map(str, kind), *getattr(kind, "earlier_texts", dict)()]
    inner = [_inner(k) for k in get_args(kind) if is_dataclass(k) or get_args(k)]
    # A number with limits or None is another type of union, with the same members.
    if get_origin(kind) is Union:
        kind = reduce(or_, get_args(kind))
    return inner or str(kind).replace("<class '", "").replace("'>", "")


def unreadable(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Schemas under which a form was written that is not read any more."""
    return [s for s, form in after.items() if s in before and not _reads(before[s], form)]


def _reads(before: Any, after: Any) -> bool:
    """Whether a reader of the later form takes every document of the earlier one."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(_reads_field(before, name, form) for name, form in after.items())
    if isinstance(before, list) and isinstance(after, list):
        return all(any(_reads(one, other) for other in after) for one in before)
    return bool(before == after)


def _reads_field(before: dict[str, Any], name: str, form: Any) -> bool:
    """A field may get a default or come with one, and may not lose it: what was written before it
    came lacks it."""
    bare = name.removesuffix("?")
    earlier = before.get(name, before.get(bare))
    return name != bare if earlier is None else _reads(earlier, form)


def test_records_read_what_their_schema_wrote_before() -> None:
    forms = {record.schema: form_of(record) for record in RECORDS}
    before = yaml.safe_load(FORMS.read_text(encoding="utf-8")) if FORMS.exists() else {}

    assert unreadable(before, forms) == [], (
        "give a field that is new a default, or raise the major version where the record is defined"
    )
    assert_snapshot(forms, FORMS)


BEFORE = {"x": "int", "y?": [{"kind?": ["circle"], "radius": "float"}], "z?": ["a", "b"]}


@pytest.mark.parametrize(
    "change",
    [
        {"new": "int"},
        {"x": "str"},
        {"y?": [{"kind?": ["square"], "side": "float"}]},
        {"y?": [{"kind?": ["circle"], "radius": "float", "colour": "str"}]},
        {"z?": ["a"]},
    ],
)
def test_forms_that_cannot_read_earlier_ones_are_reported(change: dict[str, Any]) -> None:
    after = {**BEFORE, **change}
    assert unreadable({"a/1": BEFORE}, {"a/1": after}) == ["a/1"]
    assert unreadable({"a/1": BEFORE}, {"a/2": after}) == []


def test_an_optional_field_cannot_become_required() -> None:
    assert unreadable({"a/1": {"x?": "int"}}, {"a/1": {"x": "int"}}) == ["a/1"]


@pytest.mark.parametrize(
    "after",
    [
        {**BEFORE, "new?": "int"},
        {"x?": "int", "y?": [*BEFORE["y?"], {"kind?": ["square"]}], "z?": ["a", "b", "c"]},
        {"y?": [{"kind?": ["circle"], "radius": "float", "colour?": "str"}]},
    ],
)
def test_forms_that_read_earlier_ones_keep_their_schema(after: dict[str, Any]) -> None:
    assert unreadable({"a/1": BEFORE}, {"a/1": after}) == []
