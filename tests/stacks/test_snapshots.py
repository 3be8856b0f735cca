"""What every stack of the shipped experiments holds, and who may do what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stacks.rendering import readable, rights
from tests.stacks.synthesis import PARTS, SHIPPED, synthesis
from tests.support.snapshot import assert_snapshot

pytestmark = [pytest.mark.synth]
SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("experiment", SHIPPED)
def test_template_is_the_reviewed_one(experiment: str, part: str) -> None:
    template = synthesis().template(experiment, part)
    assert_snapshot(readable(template), SNAPSHOTS / experiment / f"{part}.yaml")


@pytest.mark.parametrize("experiment", SHIPPED)
def test_rights_are_the_reviewed_ones(experiment: str) -> None:
    lines = []
    for part in PARTS:
        lines += [f"# {part}", *sorted(rights(synthesis().template(experiment, part))), ""]
    assert_snapshot("\n".join(lines), SNAPSHOTS / experiment / "rights.txt")
