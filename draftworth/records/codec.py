"""Converts records (frozen dataclasses) to strict JSON and back, and checks the type of each value.

A record's fields are text, numbers, true or false, `Literal`, None, tuples, mappings with text as
keys, other records, and unions of records. In JSON, each member of a union has a key `kind`, which
says which member it is.

The field `schema` is `draftworth.NAME/MAJOR`; the codec reads only the current MAJOR. It ignores
an unknown key, and gives a missing field its default. So a field that is added later must have a
default, and a change for which a default is not enough increases MAJOR (decision record 30).

All bytes from other programs are read with `load_value`, and may contain anything: numbers must be
finite, whole numbers must fit 64 bits, text must fit UTF-8, and error messages are short. A record
with a key twice is refused, because another reader of the file would take the other value.
"""

import gc
import json
import math
import re
import reprlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from enum import EnumType
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from draftworth.errors import DraftworthError

T = TypeVar("T")

INT64 = range(-(2**63), 2**63)
# Half of a surrogate pair can appear in JSON only as an escape.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Error messages show only a few levels of a deep value, and a part of a long value.
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = 20

_SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
}


@dataclass(frozen=True)
class Between:
    """The numbers that a field may have, as a part of its type: `Annotated[int, Between(1)]`.

    or_zero: 0 is allowed too, although it is below `least`.
    """

    least: float
    most: float = math.inf
    or_zero: bool = False

    def __str__(self) -> str:
        least, most = (
            f"{v:g}" if isinstance(v, float) else f"{v}" for v in (self.least, self.most)
        )
        limits = f"{least} or more" if self.most == math.inf else f"{least} to {most}"
        return f"0, or {limits}" if self.or_zero else limits

    def check(self, name: str, value: float) -> None:
        """Raise ValueError if `value`, the value of the field `name`, is outside the limits."""
        if not (self.least <= value <= self.most or (self.or_zero and value == 0)):
            raise ValueError(f"{name}: given {value}, allowed: {self}")


class Checked:
    """A record that checks its numbers against their limits (`Between`) whenever it is made."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, limits in _limits(kind):
            if (value := getattr(self, name)) is not None:
                limits.check(name, value)


@cache
def _limits(kind: Any) -> tuple[tuple[str, Between], ...]:
    return tuple(
        (name, limits)
        for name, hint in get_type_hints(kind, include_extras=True).items()
        for part in (hint, *get_args(hint))  # the type, and the members of an optional type
        for limits in getattr(part, "__metadata__", ())
    )


class RecordError(DraftworthError):
    """The bytes are not the expected record; the message says where and why."""


class OtherVersionError(RecordError):
    """The bytes are a record of another major version, or of another kind."""


def dump_record(record: Any, *, indent: int | None = None) -> bytes:
    """Return a record as the bytes of a JSON file: one line, or indented for people."""
    return dump_json(record, indent=indent)


def dump_text(record: Any) -> str:
    """Return a record as JSON text, for a CloudFormation property or a ConfigMap."""
    return dump_record(record).decode().rstrip()


def dump_json(value: object, *, indent: int | None = None) -> bytes:
    """Return strict JSON with a line end; `value` may have records in it.

    ValueError: a number that JSON cannot hold. TypeError: a value that is no JSON and no record.
    """
    separators = (",", ": " if indent else ":")
    text = json.dumps(
        value, default=_members, indent=indent, separators=separators, allow_nan=False
    )
    return text.encode() + b"\n"


def _members(record: Any) -> dict[str, Any]:
    """Return {field: value} of a record; raise TypeError for what is no record.

    `asdict` would also copy each value, which takes longer than to write them all.
    """
    return {field.name: getattr(record, field.name) for field in fields(record)}


def load_record(kind: type[T], data: bytes | str) -> T:
    """Parse a record of type `kind`; raise RecordError if the data is not such a record.

    The error is an OtherVersionError if the data's `schema` is another version of that of `kind`.
    """
    return cast(T, _convert_record(kind, load_object(data, keys_once=True), ""))


def load_object(data: bytes | str, *, keys_once: bool = False) -> dict[str, Any]:
    """Read an object of strict JSON; raise RecordError for anything else.

    keys_once: refuse an object that has a key twice. It is False for data of other programs, which
    may contain such objects; then the last value of the key counts.
    """
    value = load_value(data, keys_once=keys_once)
    if not isinstance(value, dict):
        raise RecordError(f"given {type(value).__name__}, allowed: an object")
    return value


def load_value(data: bytes | str, *, keys_once: bool = False) -> Any:
    """Parse any value of strict JSON; raise RecordError for anything else.

    keys_once: refuse an object that has a key twice.
    """
    hook = _once if keys_once else None
    try:
        text = data.decode() if isinstance(data, bytes) else data
        with _without_collector():
            value = json.loads(
                text,
                parse_constant=_refuse_constant,
                parse_float=_finite,
                object_pairs_hook=hook,
            )
        if isinstance(data, str):
            data.encode()
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON: {_reason(error)}") from error
    return value


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector: it would take most of the parsing time; JSON has no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "text that UTF-8 cannot hold"
    return "too deep" if isinstance(error, RecursionError) else f"{error}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        raise RecordError(f"given the key {_short.repr(twice)} twice in one object, allowed: once")
    return value


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text:.20} is too large for a number")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _convert(kind: Any, value: Any, where: str) -> Any:
    """Check a value and convert it to `kind`; lists become tuples, and objects become records.

    where: the value's place in the record, such as `requests[3].seed`, for error messages.
    """
    if kind is Any:
        return value
    if kind in _SCALARS:
        return _convert_scalar(kind, value, where)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _convert_union(get_args(kind), value, where)
    if origin is Literal:
        return _checked(value in get_args(kind), value, where, f"one of {get_args(kind)}")
    if isinstance(kind, EnumType):
        return _convert_member(kind, value, where)
    if origin is tuple:
        kinds = get_args(kind)
        convert = _convert_list if kinds[-1] is ... else _convert_fixed
        return convert(kinds, value, where)
    _checked(isinstance(value, dict), value, where, "an object")
    if origin is None:
        return _convert_record(kind, value, where)
    inner = get_args(kind)[1]
    return {name: _convert(inner, item, _below(where, name)) for name, item in value.items()}


def _convert_scalar(kind: Any, value: Any, where: str) -> Any:
    types, words = _SCALARS[kind]
    good = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
    if type(value) is int:
        good, words = good and value in INT64, f"{words} of at most 64 bits"
    return kind(_checked(good, value, where, words))


def _convert_member(kind: Any, value: Any, where: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        return _checked(False, value, where, f"one of {tuple(map(str, kind))}")  # noqa: FBT003


def _convert_list(kinds: Sequence[Any], value: Any, where: str) -> tuple[Any, ...]:
    inner = kinds[0]
    _checked(isinstance(value, list), value, where, "a list")
    # A request has thousands of chunk times, and a function call for each would be slow.
    if inner in (int, str) and all(type(item) is inner for item in value) and _all_fit(value):
        return tuple(value)
    return tuple(_convert(inner, item, f"{where}[{i}]") for i, item in enumerate(value))


def _convert_fixed(kinds: Sequence[Any], value: Any, where: str) -> tuple[Any, ...]:
    """Convert a list to a tuple that has one item of each type in `kinds`, in this order."""
    good = isinstance(value, list) and len(value) == len(kinds)
    _checked(good, value, where, f"a list of {len(kinds)}")
    return tuple(
        _convert(kind, item, f"{where}[{i}]")
        for i, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _all_fit(items: list[Any]) -> bool:
    return not items or isinstance(items[0], str) or (min(items) in INT64 and max(items) in INT64)


def _convert_union(kinds: Sequence[Any], value: Any, where: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    kinds = [kind for kind in kinds if kind is not NoneType]
    if len(kinds) == 1:
        return _convert(kinds[0], value, where)
    _checked(isinstance(value, dict), value, where, "an object")
    tagged = {tag: kind for kind in kinds for tag in get_args(_field_types(kind)["kind"])}
    tag = value.get("kind")
    _checked(
        isinstance(tag, str) and tag in tagged, tag, _below(where, "kind"), f"one of {(*tagged,)}"
    )
    return _convert_record(tagged[tag], value, where)


def _convert_record(kind: Any, value: dict[str, Any], where: str) -> Any:
    types = _field_types(kind)
    if "schema" in types:
        _check_schema(kind.schema, value, where)
    if missing := sorted(_required(kind) - value.keys()):
        raise RecordError(f"{where or 'file'}: missing keys {_short.repr(missing)}")
    converted = {
        name: _convert(inner, value[name], _below(where, name))
        for name, inner in types.items()
        if name in value
    }
    try:
        return kind(**converted)
    except ValueError as error:  # the record checks its own values
        raise RecordError(f"{where}.{error}" if where else str(error)) from error


def _check_schema(allowed: str, value: dict[str, Any], where: str) -> None:
    schema = value.get("schema")
    if schema == allowed:
        return
    given_words = f"{_below(where, 'schema')}: given {_short.repr(schema):.80}, allowed {allowed!r}"
    if isinstance(schema, str) and _kind_of(schema) != _kind_of(allowed):
        raise RecordError(f"{given_words}; next: give a file of the allowed kind")
    version = value.get("draftworth_version")
    writer = f"draftworth {version!r:.40}" if version else "the version of draftworth"
    raise OtherVersionError(f"{given_words}; next: read it with {writer} that wrote it")


def _kind_of(schema: str) -> str:
    return schema.rpartition("/")[0]


@cache
def _required(kind: Any) -> frozenset[str]:
    return frozenset(
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    )


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _below(where: str, name: str) -> str:
    return f"{where}.{name:.60}" if where else name[:200]


def _checked(good: bool, value: Any, where: str, allowed: str) -> Any:  # noqa: FBT001
    if not good:
        raise RecordError(f"{where}: given {_short.repr(value):.80}, allowed: {allowed}")
    return value
