"""Each check of `preflight` on the rows of `checks/MODULE.yaml`: its status, and what it says.

A row, below the name of its check, is the status that the check has, and what it sees. `experiment`
is a shipped one, qwen3-32b if left out; `aws` is what is changed below its `aws`; `answers` is what
AWS answers, by service: the call, and its answer or the code of its error; `programs` are exit code
and output. It is 2026-11-21, 12:00 UTC.

`checks/MODULE.txt` has the words: what was found, the next step, and what can be pasted, read by
people in a diff.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.account.checks.check import CheckResult
from draftworth.account.market.offers import yaml_lines
from draftworth.account.preflight import CHECKS
from tests.conftest import ROOT
from tests.draftworth.account import stubs
from tests.support.snapshot import assert_snapshot

pytestmark = [pytest.mark.emulator]
Row = dict[str, Any]
ROWS_FOLDER = Path(__file__).with_name("checks")
# By the module of the checks, and by the name of the check.
MODULES: dict[str, dict[str, list[Row]]] = {
    file.stem: yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    for file in sorted(ROWS_FOLDER.glob("*.yaml"))
}
ROWS = {name: rows for checks in MODULES.values() for name, rows in checks.items()}


def checked(name: str, row: Row) -> CheckResult:
    experiment = stubs.experiment(row.get("experiment", "qwen3-32b"), **row.get("aws", {}))
    answers: dict[str, Any] = {
        service: [stubs.Answer.of(*call) for call in calls]
        for service, calls in row.get("answers", {}).items()
    }
    programs = row.get("programs", {})
    situation = dataclasses.replace(
        stubs.situation(experiment, **answers),
        run=lambda command: programs.get(command[0]),
        container_engine=row.get("engine", "docker"),
    )
    (check,) = (check for check in CHECKS if check.name == name)
    return check.run(situation)


def lines(name: str, number: int, result: CheckResult) -> Iterator[str]:
    yield f"{name} {number}: {result.status}"
    yield f"    found: {result.observation}"
    if result.next_step:
        yield f"    next:  {result.next_step}"
    if result.paste:
        yield from (f"    {line}" for line in yaml_lines(result.paste))


@pytest.fixture(scope="module")
def results() -> dict[str, list[CheckResult]]:
    return {name: [checked(name, row) for row in rows] for name, rows in ROWS.items()}


@pytest.mark.parametrize("name", ROWS)
def test_a_checks_status_and_pasted_experiment_are_right(
    name: str, results: dict[str, list[CheckResult]]
) -> None:
    assert [result.status for result in results[name]] == [row["status"] for row in ROWS[name]]
    for result in results[name]:
        assert stubs.experiment(**result.paste)


@pytest.mark.parametrize("module", MODULES)
def test_what_a_check_says(module: str, results: dict[str, list[CheckResult]]) -> None:
    text = "".join(
        f"{line}\n"
        for name in MODULES[module]
        for number, result in enumerate(results[name], start=1)
        for line in lines(name, number, result)
    )
    text = text.replace(str(ROOT), "ROOT")
    assert_snapshot(text, ROWS_FOLDER / f"{module}.txt")
