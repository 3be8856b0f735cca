"""The outputs that `estimate` reads from a folder of answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from draftworth.planning.resolved import load
from rehearsal.answers import answers_of
from tests.conftest import ROOT

REHEARSAL = ROOT / "experiments/rehearsal.yaml"


def test_the_shipped_answers_are_to_every_shipped_prompt() -> None:
    experiment = load(REHEARSAL)
    found = answers_of(experiment, str(ROOT / "rehearsal/tiny_pair/answers"))

    assert found.run is None
    asked = {(c.prompt_class, c.name, p.id) for c in experiment.cases for p in c.prompts}
    assert {(o.prompt_class, o.case, o.prompt_id) for o in found.outputs} == asked
    assert all(o.text for o in found.outputs)


def test_answers_to_other_cases_are_none(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "case.jsonl").write_text('{"id": "a", "text": "yes"}\n')

    assert answers_of(load(REHEARSAL), str(tmp_path)).outputs == []


def test_a_folder_that_is_neither_run_nor_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserInputError):
        answers_of(load(REHEARSAL), str(tmp_path))
