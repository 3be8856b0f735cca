"""The manifest: read back as written, refused when it is something else, compared in full."""

import dataclasses
from typing import Any

import pytest

from draftworth.records.graph_manifests import differences, size_differences
from tests.draftworth.records.good_records import INPUTS, MANIFEST

OTHER = {"model": "a/b", "revision": "v2"}


@pytest.mark.parametrize(
    ("inputs", "difference"),
    [
        ({**INPUTS, "window": 5}, "window: compiled for 7, asked for 5"),
        ({**INPUTS, "window": "7"}, 'window: compiled for 7, asked for "7"'),
        ({**INPUTS, "lnc": 1}, "lnc: compiled for (nothing), asked for 1"),
        ({**INPUTS, "target": OTHER}, 'target.revision: compiled for "main", asked for "v2"'),
    ],
)
def test_every_difference_is_named(inputs: dict[str, Any], difference: str) -> None:
    assert differences(MANIFEST, inputs, {}) == [difference]


def test_an_empty_setting_is_not_a_missing_one() -> None:
    empty = dataclasses.replace(MANIFEST, inputs={"neuron_config": {}})
    assert differences(empty, {"neuron_config": {}}, {}) == []
    assert differences(empty, {}, {}) == ["neuron_config: compiled for {}, asked for (nothing)"]


def test_commits_are_compared_where_both_sides_know_them() -> None:
    assert differences(MANIFEST, INPUTS, {"draft": "any"}) == []
    (difference,) = differences(MANIFEST, INPUTS, {"target": "decaf"})
    assert difference == "target checkpoint: compiled for commit c0ffee, asked for commit decaf"


def test_missing_files_and_other_sizes_are_named() -> None:
    assert MANIFEST.size_bytes == 5
    assert size_differences(MANIFEST, {"model.pt": 5, "weights/.done": 0, "more": 1}) == []
    assert size_differences(MANIFEST, {"model.pt": 4}) == [
        "model.pt: 5 bytes were uploaded, 4 bytes are there",
        "weights/.done: 0 bytes were uploaded, it is not there",
    ]
