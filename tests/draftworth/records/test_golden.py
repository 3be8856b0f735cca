"""Documents that earlier versions wrote are read, and what a reader cannot take is refused."""

import json
from fnmatch import fnmatch
from operator import attrgetter
from pathlib import Path

import pytest

from draftworth.cli import main
from draftworth.records import codec
from draftworth.records.run_folder import read_run
from draftworth.records.step_costs import read_step_costs
from draftworth.records.transcripts import read_transcripts
from tests.draftworth.records.write_golden import (
    GOLDEN,
    KINDS,
    VERSIONS,
    kind_of,
    lines_of,
    records_of,
    write,
)

FILES = sorted(file.relative_to(GOLDEN) for file in GOLDEN.rglob("*.*") if file.is_file())
WITH_SCHEMA = [file for file in FILES if b'"schema"' in (GOLDEN / file).read_bytes()]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_an_earlier_versions_document_survives_the_round_trip(file: Path) -> None:
    _, field, value = kind_of(file.relative_to(file.parts[0]).as_posix())

    records = records_of(GOLDEN / file)

    content = attrgetter(field)(records[0])
    assert content if value is None else content == value
    for record in records:
        assert codec.load_record(type(record), codec.dump_record(record)) == record


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_a_document_of_each_kind(version: str) -> None:
    """Of a kind that came later, an earlier version has none: then its pattern is excepted here."""
    names = [file.relative_to(version).as_posix() for file in FILES if file.parts[0] == version]
    missing = [pattern for pattern in KINDS if not any(fnmatch(n, pattern) for n in names)]
    since = {
        "run/allowed_steps.json": "2026-11-28",
        "acceptance.json": "2026-11-26",
        "prompt_forecasts.json": "2026-11-28",
        "logged_traffic.json": "2026-11-28",
    }
    assert missing == [kind for kind, first in since.items() if version < first]


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
def test_other_major_versions_and_missing_keys_are_refused(file: Path) -> None:
    kinds, _, _ = kind_of(file.relative_to(file.parts[0]).as_posix())
    value = codec.load_object(lines_of(GOLDEN / file)[0])
    changed = {**value, "schema": f"{value['schema']}0"}
    with pytest.raises(codec.OtherVersionError, match="that wrote it"):
        codec.load_record(kinds[0], json.dumps(changed))
    with pytest.raises(
        codec.OtherVersionError, match=r"read it with draftworth '7\.1\.0' that wrote it"
    ):
        codec.load_record(kinds[0], json.dumps({**changed, "draftworth_version": "7.1.0"}))
    with pytest.raises(codec.RecordError, match="give a file of the allowed kind") as refused:
        codec.load_record(kinds[0], json.dumps({**value, "schema": "draftworth.another/1"}))
    assert not isinstance(refused.value, codec.OtherVersionError)
    key = "deployments" if "deployments" in value else list(value)[2]
    del value[key]
    with pytest.raises(codec.RecordError, match=f"missing keys \\['{key}'\\]"):
        codec.load_record(kinds[0], json.dumps(value))


def test_what_a_version_wrote_is_never_written_again() -> None:
    with pytest.raises(FileExistsError):
        write(VERSIONS[0])
