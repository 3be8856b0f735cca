"""A record's form changes only with its schema: files of two forms are never taken for one."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from draftworth.measuring.journal import Entry
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.artifacts import ArtifactManifest
from draftworth.records.checkpoints import FailedModel, ReadyModel
from draftworth.records.deployment import CanaryReport, CapacityPlan
from draftworth.records.findings import StepCostCard, Verdict
from draftworth.records.likelihoods import Likelihoods, Predictions
from draftworth.records.results import BlockResult, RunResult
from draftworth.records.search import SearchResult
from draftworth.records.servers import ServerState
from tests.support.snapshot import assert_snapshot

RECORDS: tuple[Any, ...] = (
    *(BlockResult, RunResult, RunSpec, Entry, ArtifactManifest, CapacityPlan, ReadyModel),
    *(CanaryReport, FailedModel, ServerState, StepCostCard, Verdict),
    *(Likelihoods, Predictions, SearchResult),
)
FORMS = Path(__file__).parent / "snapshots" / "schemas.yaml"


def form_of(record: Any) -> dict[str, Any]:
    """Field names of a record, with those of the records in it."""
    hints = get_type_hints(record)
    return {f.name: _inner(hints[f.name]) for f in fields(record) if f.name != "schema"}


def _inner(kind: Any) -> Any:
    if is_dataclass(kind):
        return form_of(kind)
    inner = [_inner(k) for k in get_args(kind) if is_dataclass(k) or get_args(k)]
    return inner or str(kind).replace("<class '", "").replace("'>", "")


def changed_in_silence(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Schemas under which another form was known."""
    return [schema for schema, form in after.items() if before.get(schema, form) != form]


def test_a_record_of_another_form_has_another_schema() -> None:
    forms = {record.schema: form_of(record) for record in RECORDS}
    before = yaml.safe_load(FORMS.read_text(encoding="utf-8")) if FORMS.exists() else {}

    assert changed_in_silence(before, forms) == [], "raise the schema where the record is defined"
    assert_snapshot(forms, FORMS)


@pytest.mark.parametrize("after", [{"a/1": {"x": "int", "y": "int"}}, {"a/1": {"x": "str"}}])
def test_another_form_under_the_same_schema_is_found(after: dict[str, Any]) -> None:
    assert changed_in_silence({"a/1": {"x": "int"}}, after) == ["a/1"]
    assert changed_in_silence({"a/1": {"x": "int"}}, {"a/2": {"x": "str"}}) == []
