"""Snapshots of the stack of qwen3-32b, and of all rights of two shipped experiments.

The template of the second experiment, llama-3.1-8b-eagle3, differs only in what the other tests of
this folder check for all experiments: zone, kind of capacity, kept buckets, the controller's plan.
"""

from pathlib import Path

import pytest

from draftworth.experiment.naming import PARTS
from tests.stacks.rendering import outputs, readable, rights
from tests.stacks.synthesis import SHIPPED, synthesis
from tests.support.snapshot import assert_snapshot

pytestmark = [pytest.mark.synth]
SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("part", PARTS)
def test_template_is_the_reviewed_one(part: str) -> None:
    template = synthesis().template("qwen3-32b", part)
    assert_snapshot(readable(template), SNAPSHOTS / "qwen3-32b" / f"{part}.yaml")


def test_outputs_are_the_reviewed_ones() -> None:
    template = synthesis().template("qwen3-32b", "benchmark")
    assert_snapshot(outputs(template), SNAPSHOTS / "qwen3-32b" / "outputs.yaml")


@pytest.mark.parametrize("experiment", SHIPPED)
def test_rights_are_the_reviewed_ones(experiment: str) -> None:
    lines = []
    for part in PARTS:
        lines += [f"# {part}", *sorted(rights(synthesis().template(experiment, part))), ""]
    assert_snapshot("\n".join(lines), SNAPSHOTS / experiment / "rights.txt")
