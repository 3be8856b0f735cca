"""Snapshots of all objects of qwen3-32b, and of the servers of llama-3.1-8b-eagle3.

A reviewer reads their changes in a diff. The other charts of llama-3.1-8b-eagle3 differ in names
and numbers only, which other tests of this folder check for both experiments.
"""

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from tests.charts.rendering import CHARTS, Object, rendered
from tests.support.snapshot import assert_snapshot

pytestmark = pytest.mark.synth

SNAPSHOTS = Path(__file__).parent / "snapshots"
# The content hash in a name. The snapshots do not show it, else each new prompt would change them.
_CONTENT_HASH = re.compile(r"-[0-9a-f]{8}\b")


@pytest.mark.parametrize(
    ("name", "chart"),
    [*(("qwen3-32b", chart) for chart in CHARTS), ("llama-3.1-8b-eagle3", "serving")],
)
def test_objects_are_as_in_the_snapshot(name: str, chart: str) -> None:
    objects = [_readable(item) for item in rendered(name)[chart]]
    assert_snapshot(objects, SNAPSHOTS / f"{name}.{chart}.yaml")


def _readable(item: Object) -> Any:
    masked = copy.deepcopy(item)
    for name in masked.get("binaryData", {}):
        masked["binaryData"][name] = "<programs>"
    for template in [masked.get("spec", {}).get("template", {})]:
        annotations = template.get("metadata", {}).get("annotations", {})
        if "draftworth/serving-content" in annotations:
            annotations["draftworth/serving-content"] = "<content-hash>"
    return _without_hashes(masked)


def _without_hashes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_hashes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_hashes(item) for item in value]
    return _CONTENT_HASH.sub("-<hash>", value) if isinstance(value, str) else value
