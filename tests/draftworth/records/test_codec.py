"""The codec of all records: what is written is read back, of the same major version too, and what
is not the record is refused by key."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from draftworth.records.codec import RecordError, dump_record, dump_text, load_record


@dataclass(frozen=True, kw_only=True)
class Circle:
    kind: Literal["circle"] = "circle"
    radius: float

    def __post_init__(self) -> None:
        if self.radius <= 0:
            raise ValueError(f"radius: given {self.radius:g}, allowed: above 0")


@dataclass(frozen=True, kw_only=True)
class Square:
    kind: Literal["square"] = "square"
    side: int
    tilted: bool


@dataclass(frozen=True, kw_only=True)
class Frame:
    schema: str = "frame/1"
    width: int


@dataclass(frozen=True, kw_only=True)
class Drawing:
    schema: str = "drawing/1"
    title: str
    colour: Literal["red", "blue"] | None
    shapes: tuple[Circle | Square, ...]
    extra: Circle | Square | None
    notes: Mapping[str, tuple[int, ...]]
    place: tuple[int, str]
    frame: Frame = Frame(width=7)


DRAWING = Drawing(
    title="é",
    colour="red",
    shapes=(Circle(radius=1.0), Square(side=2, tilted=True)),
    extra=None,
    notes={"a": (1, 2), "b": (-(2**63), 2**63 - 1)},
    place=(3, "b"),
)


@pytest.mark.parametrize("data", [dump_record(DRAWING), dump_record(DRAWING, indent=1)])
def test_a_record_is_read_back_as_written(data: bytes) -> None:
    assert load_record(Drawing, data) == DRAWING


@pytest.mark.parametrize(
    ("written", "read"),
    [('"title"', '"hidden": {"deep": [1]}, "title"'), ('"side"', '"hidden": null, "side"')],
)
def test_a_later_versions_key_is_ignored(written: str, read: str) -> None:
    assert load_record(Drawing, changed(written, read)) == DRAWING


def test_an_earlier_versions_missing_field_has_its_default() -> None:
    earlier = changed(',"frame":{"schema":"frame/1","width":7}', "")
    assert load_record(Drawing, earlier) == DRAWING


def test_a_records_text_has_no_line_end() -> None:
    assert dump_text(DRAWING).encode() + b"\n" == dump_record(DRAWING)
    assert load_record(Drawing, dump_text(DRAWING)) == DRAWING


def test_a_number_in_a_float_field_is_float() -> None:
    circle = load_record(Circle, b'{"kind": "circle", "radius": 3}')
    assert isinstance(circle.radius, float)


def changed(old: str, new: str) -> str:
    text = dump_text(DRAWING)
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("drawing/1", "drawing/2"), "schema: given 'drawing/2', .* with the version"),
        (changed('"circle"', '"star"'), r"shapes\[0\].kind: given 'star', allowed: one of"),
        (changed('"kind":"circle",', ""), r"shapes\[0\].kind: given None, allowed: one of"),
        (changed("frame/1", "frame/2"), "frame.schema: given 'frame/2', allowed 'frame/1'"),
        (changed('"schema":"frame/1",', ""), "frame.schema: given None, allowed 'frame/1'"),
        (changed('"title":"\\u00e9",', ""), r"file: missing keys \['title'\]"),
        (changed('"circle"', '["circle"]'), r"shapes\[0\].kind: given \['circle'\]"),
        (changed('"circle"', '"square"'), r"shapes\[0\]: missing keys \['side', 'tilted'\]"),
        (changed("1.0", "0"), r"shapes\[0\].radius: given 0, allowed: above 0"),
        (changed("1.0", "true"), r"shapes\[0\].radius: given True, allowed: a number"),
        (changed("2,", "2.5,"), r"shapes\[1\].side: given 2.5, allowed: a whole number"),
        (changed('tilted":true', 'tilted":1'), "tilted: given 1, allowed: true or false"),
        (changed('"red"', '"green"'), r"colour: given 'green', allowed: one of \('red', 'blue'\)"),
        (changed('"extra":null', '"extra":7'), "extra: given 7, allowed: an object"),
        (changed("[1,2]", "[1,true]"), r"notes.a\[1\]: given True, allowed: a whole number"),
        (changed("[1,2]", '["1","2"]'), r"notes.a\[0\]: given '1', allowed: a whole number"),
        (changed('[3,"b"]', "[3]"), r"place: given \[3\], allowed: a list of 2"),
        (changed('[3,"b"]', '[3,"b",1]'), r"place: given \[3, 'b', 1\], allowed: a list of 2"),
        (changed('[3,"b"]', "[3,4]"), r"place\[1\]: given 4, allowed: text"),
        (changed('[3,"b"]', '"ab"'), "place: given 'ab', allowed: a list of 2"),
        (changed("1.0", "Infinity"), "Infinity is not a JSON number"),
        ("[" * 100_000, "not JSON"),
        (changed('"title"', '"place":[],"title"'), "given the key 'place' twice in one object"),
        (changed('"side"', '"side":1,"side"'), "given the key 'side' twice in one object, allowed"),
        (changed('"title"', '"more":[{"é":1,"é":1}],"title"'), "given the key 'é' twice in one"),
    ],
)
def test_what_is_no_record_is_refused_by_key(data: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        load_record(Drawing, data)


@dataclass(frozen=True, kw_only=True)
class Loose:
    number: float
    whole: int
    numbers: tuple[int, ...]
    text: str
    anything: Any


LOOSE = '{"number": 1, "whole": 1, "numbers": [1], "text": "t", "anything": 1}'


@pytest.mark.parametrize(
    ("written", "refused", "message"),
    [
        ('"number": 1', '"number": 1e999', "too large for a number"),
        ('"number": 1', f'"number": {10**400}', "at most 64 bits"),
        ('"number": 1', f'"number": {"9" * 5000}', "not JSON"),
        ('"whole": 1', f'"whole": {2**63}', "whole: given 9223372036854775808, allowed: a whole"),
        ("[1]", f"[1, {2**63}]", r"numbers\[1\]: given"),
        ("[1]", f"[1, {-(2**63) - 1}]", r"numbers\[1\]: given"),
        ('"text": "t"', '"text": "\\ud800"', "UTF-8 cannot hold"),
        ('"anything": 1', '"anything": ["\\uDfff"]', "UTF-8 cannot hold"),
        ('"anything": 1', '"anything": [-1e999]', "too large for a number"),
        ('"anything": 1', f'"anything": {"[" * 10**5}', "too deep"),
        ('"whole": 1', '"whole": ' + "[" * 500 + "]" * 500, r"given \[\[\["),
        ('"whole": 1', f'"whole": {json.dumps({str(n): n for n in range(10**4)})}', "given {"),
    ],
)
def test_bytes_of_any_kind_are_refused_briefly(written: str, refused: str, message: str) -> None:
    assert load_record(Loose, LOOSE).number == 1.0
    for data in (LOOSE.replace(written, refused), LOOSE.replace(written, refused).encode()):
        with pytest.raises(RecordError, match=message) as raised:
            load_record(Loose, data)
        assert len(str(raised.value)) < 300


def test_a_long_key_twice_is_refused_briefly() -> None:
    long = f'"{"k" * 10**5}": 1, '
    with pytest.raises(RecordError, match=r"given the key 'kkk.* twice in one object") as raised:
        load_record(Loose, "{" + long * 2 + LOOSE[1:])
    assert len(str(raised.value)) < 300


def test_an_object_of_other_keys_is_refused_briefly() -> None:
    data = json.dumps({f"{n}" * 1000: n for n in range(1000)})
    with pytest.raises(RecordError, match="missing keys") as raised:
        load_record(Loose, data)
    assert len(str(raised.value)) < 3000


def test_text_outside_of_ascii_has_two_forms() -> None:
    for text in ("\\ud83d\\ude00", "\U0001f600"):
        assert load_record(Loose, LOOSE.replace('"t"', f'"{text}"')).text == "\U0001f600"
