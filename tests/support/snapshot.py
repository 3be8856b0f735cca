"""Compares results with snapshots: short text files beside a test, which people read as a diff.

`make snapshots` rewrites them (environment variable DRAFTWORTH_UPDATE_SNAPSHOTS) and fails on
purpose, so that an update is never mistaken for a pass: look at the diff, then run the tests again.
"""

import difflib
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

UPDATE_VARIABLE = "DRAFTWORTH_UPDATE_SNAPSHOTS"
_ASSET_HASH = re.compile(r"\b[0-9a-f]{64}\b")


def masked(value: Any) -> Any:
    """Return the value with every asset hash (64 hex digits anywhere in a text) replaced."""
    if isinstance(value, dict):
        return {_mask(str(key)): masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return _mask(value) if isinstance(value, str) else value


def _mask(text: str) -> str:
    return _ASSET_HASH.sub("<asset-hash>", text)


def assert_snapshot(actual: str | object, path: Path) -> None:
    """Fail the test unless the snapshot file `path` has `actual` as its text.

    An `actual` that is not text is compared as sorted YAML with asset hashes masked.
    """
    text = actual if isinstance(actual, str) else _as_yaml(actual)
    if os.environ.get(UPDATE_VARIABLE):
        _update(text, path)
    if not path.exists():
        pytest.fail(f"no snapshot {path.name}: run `make snapshots`, look at it, commit it")
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        diff = "\n".join(
            difflib.unified_diff(
                expected.splitlines(), text.splitlines(), "snapshot", "actual", lineterm="", n=2
            )
        )
        pytest.fail(f"{path.name} differs; if that is meant: `make snapshots`\n{diff}")


def _as_yaml(value: object) -> str:
    return yaml.safe_dump(masked(value), sort_keys=True, width=110)


def _update(text: str, path: Path) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    pytest.fail(f"{path.name} was rewritten: look at the diff, then run the tests without updating")
