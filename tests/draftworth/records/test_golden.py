"""Documents that earlier versions wrote are read, and what a reader cannot take is refused."""

import gzip
import json
from collections.abc import Mapping
from fnmatch import fnmatch
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.measuring.journal import Entry
from draftworth.measuring.run_specification import RunSpec
from draftworth.records import codec
from draftworth.records.acceptance import AcceptanceProfile
from draftworth.records.artifacts import ArtifactManifest
from draftworth.records.checkpoints import FailedModel, ReadyModel, StagingPlan
from draftworth.records.deployment import CanaryReport, CapacityPlan
from draftworth.records.findings import StepCostCard, Verdict, read_step_costs
from draftworth.records.likelihoods import Likelihoods, Predictions
from draftworth.records.reading import read_run
from draftworth.records.readings import Output, Pass, Reading
from draftworth.records.results import BlockResult, RunResult
from draftworth.records.search import SearchResult
from draftworth.records.servers import ServerState
from draftworth.records.transcripts import Transcript, read_transcripts
from lambdas.capacity_controller.state import State
from lambdas.metrics_publisher.publisher import Claim
from tests.draftworth.records.write_golden import GOLDEN, documents, write

# By the document's path: the record of each line, a field of the first one, and what it holds.
KINDS: Mapping[str, tuple[tuple[type[Any], ...], str, object]] = {
    "run/run.json": ((RunResult,), "price.usd_per_node_hour", 10.0),
    "run/journal/*": ((Entry,), "kind", "measured"),
    "run/blocks/*.result.json": ((BlockResult,), "load.label", "p2.5"),
    "run/blocks/*.transcript.jsonl.gz": ((Transcript,), "text", "1 2 3"),
    "run/verdict.json": ((Verdict,), "findings", None),
    "run/step_costs.json": ((StepCostCard,), "serving.tensor_parallel_size", 32),
    "run/search.json": ((SearchResult,), "best", "a-k6"),
    "run/likelihoods.json": ((Likelihoods,), "likelihoods", None),
    "run/predictions.json": ((Predictions,), "predictions", None),
    "run/drafts/outputs.jsonl": ((Output,), "token_ids", (16, 17, 18)),
    "run-specification.json": ((RunSpec,), "sampling.max_requests", 64),
    "capacity-plan.json": ((CapacityPlan,), "budget_usd", 60.0),
    "capacity-state.json": ((State,), "deployment.plan.deadline_minutes", 240),
    "published.json": ((Claim,), "calls_done", 3),
    "artifacts.json": ((ArtifactManifest,), "size_bytes", 3),
    "ready.json": ((ReadyModel,), "size_bytes", 3),
    "staging.json": ((StagingPlan,), "model", "Qwen/Qwen3-32B"),
    "staging-failed.json": ((FailedModel,), "reason", "no such revision"),
    "canary.json": ((CanaryReport,), "ok", True),
    "server-state.json": ((ServerState,), "phase", "given_up"),
    "readings.jsonl": ((Pass, Reading), "options", {"batch": 4}),
    "acceptance.json": ((AcceptanceProfile,), "temperature", 0.0),
}
VERSIONS = sorted(folder.name for folder in GOLDEN.iterdir())
FILES = sorted(file.relative_to(GOLDEN) for file in GOLDEN.rglob("*.*") if file.is_file())
WITH_SCHEMA = [file for file in FILES if b'"schema"' in (GOLDEN / file).read_bytes()]


def kind_of(document: str) -> tuple[tuple[type[Any], ...], str, object]:
    return next(kind for pattern, kind in KINDS.items() if fnmatch(document, pattern))


def lines(name: str, data: bytes) -> list[bytes]:
    return (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()


def lines_of(file: Path) -> list[bytes]:
    return lines(file.name, (GOLDEN / file).read_bytes())


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_document_of_an_earlier_version_is_read(file: Path) -> None:
    kinds, field, value = kind_of(file.relative_to(file.parts[0]).as_posix())

    read = [codec.load_record(k, line) for k, line in zip(kinds, lines_of(file), strict=True)]

    found = attrgetter(field)(read[0])
    assert found if value is None else found == value


@pytest.mark.parametrize("name", documents())
def test_a_document_is_read_back_as_it_is_written_today(name: str) -> None:
    kinds, _, _ = kind_of(name)
    for kind, line in zip(kinds, lines(name, documents()[name]), strict=True):
        read = codec.load_record(kind, line)
        assert codec.load_record(kind, codec.dump_record(read)) == read


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_a_document_of_each_kind(version: str) -> None:
    """Of a kind that came later, an earlier version has none: then its pattern is excepted here."""
    names = [file.relative_to(version).as_posix() for file in FILES if file.parts[0] == version]
    missing = [pattern for pattern in KINDS if not any(fnmatch(n, pattern) for n in names)]
    assert missing == (["acceptance.json"] if version < "2026-11-26" else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_run_of_an_earlier_version_is_reported(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = GOLDEN / version / "run"
    run = read_run(folder)
    assert run.search
    assert run.likelihoods
    assert len(read_transcripts(folder, run.blocks)) == 2
    assert read_step_costs(folder).run_id == run.result.run_id
    assert main(["report", str(folder), "--verbose"]) == 0
    assert "Qwen/Qwen3-32B" in capsys.readouterr().out


@pytest.mark.parametrize("file", WITH_SCHEMA, ids=str)
def test_a_document_of_another_major_version_or_without_a_key_is_refused(file: Path) -> None:
    kinds, _, _ = kind_of(file.relative_to(file.parts[0]).as_posix())
    value = codec.load_object(lines_of(file)[0])
    changed = {**value, "schema": f"{value['schema']}0"}
    with pytest.raises(codec.OtherVersionError, match="that wrote it"):
        codec.load_record(kinds[0], json.dumps(changed))
    with pytest.raises(
        codec.OtherVersionError, match=r"read it with draftworth '7\.1\.0' that wrote it"
    ):
        codec.load_record(kinds[0], json.dumps({**changed, "draftworth_version": "7.1.0"}))
    key = "deployments" if "deployments" in value else list(value)[2]
    del value[key]
    with pytest.raises(codec.RecordError, match=f"missing keys \\['{key}'\\]"):
        codec.load_record(kinds[0], json.dumps(value))


def test_what_a_version_wrote_is_never_written_again() -> None:
    with pytest.raises(FileExistsError):
        write(GOLDEN / VERSIONS[0])
