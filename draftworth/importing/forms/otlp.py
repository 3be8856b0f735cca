"""Reads OTLP in its JSON encoding: spans, log records, and the values of attributes.

Attributes are also read as plain objects, as consoles and databases write them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from draftworth.importing.log_form import Value
from draftworth.records.chat import NotSendableError

_SCALARS = ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue")
_MOST_LEVELS = 40


def objects_in(value: Value, *names: str) -> Iterator[Value]:
    """Yield the objects in lists that stand in one another; what is no object there is empty."""
    name, *further = names
    listed = value.get(name)
    for item in listed if isinstance(listed, list) else ():
        inner = item if isinstance(item, dict) else {}
        if further:
            yield from objects_in(inner, *further)
        else:
            yield inner


def groups_of_log_records(value: Value) -> Iterator[Value]:
    """Yield a span for all log records that name the same one, with the records as its events."""
    spans: dict[str, dict[str, Any]] = {}
    for record in objects_in(value, "resourceLogs", "scopeLogs", "logRecords"):
        key = f"{record.get('traceId'):.64} {record.get('spanId'):.64}" if _has_ids(record) else ""
        span = spans.setdefault(key or f"alone {len(spans)}", {**record, "events": []})
        parts = {name: record.get(name) for name in ("attributes", "body")}
        span["events"].append({"name": record.get("eventName"), **parts})
    yield from spans.values()


def attributes_of(value: Value) -> dict[str, Any]:
    """Return the attributes of a span, event or log record as a plain object."""
    attributes = value.get("attributes")
    if isinstance(attributes, dict):
        return attributes
    return {
        item["key"]: any_value(item.get("value"))
        for item in (attributes if isinstance(attributes, list) else ())
        if isinstance(item, dict) and isinstance(item.get("key"), str)
    }


def any_value(value: object, levels: int = _MOST_LEVELS) -> Any:
    """Return the plain value in OTLP's `{"stringValue": "x"}`; a plain value unchanged."""
    if levels == 0:
        raise NotSendableError("nested too deep", f"attributes: more than {_MOST_LEVELS} levels")
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "intValue" and isinstance(inner, str):  # 64 bits are text in JSON
        return int(inner) if inner.isdecimal() and len(inner) < 20 else None
    if kind in _SCALARS:
        return inner
    values = inner.get("values", []) if isinstance(inner, Mapping) else []
    if not isinstance(values, list):
        return None
    if kind == "arrayValue":
        return [any_value(item, levels - 1) for item in values]
    if kind == "kvlistValue":
        return {
            item["key"]: any_value(item.get("value"), levels - 1)
            for item in values
            if isinstance(item, dict) and isinstance(item.get("key"), str)
        }
    return value


def _has_ids(record: Value) -> bool:
    return isinstance(record.get("traceId"), str) and isinstance(record.get("spanId"), str)
