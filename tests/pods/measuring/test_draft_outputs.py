"""What the load generator puts down for the drafts of a search, and takes of what they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from draftworth.measuring.result_files import FolderSink, Store
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import reads_nothing
from draftworth.records.codec import dump_record, load_record
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.readings import (
    OUTPUTS_FILE,
    READINGS_FILE,
    DraftReadings,
    Output,
    Reading,
)
from draftworth.records.results import BLOCKS_FOLDER, TRANSCRIPT_SUFFIX, BlockResult
from draftworth.records.search import Search
from draftworth.records.transcripts import Transcript, dump_transcripts
from pods.measuring.draft_outputs import MOST_OUTPUTS_A_CLASS, DraftOutputs, draft_outputs
from pods.measuring.s3_sink import S3Sink
from tests.draftworth.measuring.specifications import case, endpoint, specification
from tests.draftworth.searching.candidates import candidate
from tests.support.blocks import make_block, make_record

RUN = "llmperf-x-0123abcd-11112222"
READING = Reading(
    id="structured/case/structured-0",
    prompt_class="structured",
    case="case",
    prompt_id="structured-0",
    hits="10",
    log_likelihood=-1.0,
    entropy=1.0,
    variance=1.0,
)
SEARCH = Search(
    candidates=(candidate(3),),
    drafts_read_text=True,
    step_cost_per_draft=(0.0, 0.5),
    within=0.03,
)


def spec_of(prompts: int = 3) -> RunSpec:
    return specification(
        (endpoint("baseline", 0), endpoint("draft-k3", 1)),
        cases=(case("structured", prompts=prompts),),
        search=SEARCH,
    )


def block_of(
    store: Store, spec: RunSpec, variant: str = "baseline", number: int = 0
) -> BlockResult:
    """A block of all prompts and its transcript in the store."""
    (only,) = spec.cases
    records = tuple(
        make_record(request_id=f"{variant}-{number}-{p.id}", prompt_id=p.id) for p in only.prompts
    )
    block = make_block(run_id=RUN, variant=variant, block=number, case=only.name, requests=records)
    texts = (Transcript(request_id=r.request_id, text=f"of {r.prompt_id}") for r in records)
    name = f"{RUN}/{BLOCKS_FOLDER}/{block.stem}{TRANSCRIPT_SUFFIX}"
    store.write(name, dump_transcripts(texts))
    return block


def outputs_in(store: Store) -> list[Output]:
    data = store.read(f"{RUN}/{OUTPUTS_FILE}")
    return [load_record(Output, line) for line in data.splitlines()]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path) -> FolderSink:
    return FolderSink(tmp_path)


def asked(store: Store, said: list[str], spec: RunSpec | None = None) -> DraftOutputs:
    return DraftOutputs(spec or spec_of(), store, said.append)


def test_the_baselines_outputs_are_put_down_once_and_nobody_waits(
    store: FolderSink, said: list[str]
) -> None:
    spec = spec_of()
    blocks = [block_of(store, spec), block_of(store, spec, "draft-k3")]
    read_outputs = asked(store, said)
    assert read_outputs(RUN, blocks) == {}
    assert [o.text for o in outputs_in(store)] == [f"of structured-{n}" for n in range(3)]
    assert read_outputs(RUN, blocks) == {}
    assert asked(store, said)(RUN, blocks[:0]) == {}  # of the next pod: they are there
    (line,) = said
    assert line.startswith("3 of the baseline's 3 outputs are there")


def test_readings_are_taken_once_they_are_there(store: FolderSink, said: list[str]) -> None:
    blocks = [block_of(store, spec_of())]
    read_outputs = asked(store, said)
    assert read_outputs(RUN, blocks) == {}
    readings = DraftReadings(run_id=RUN, drafts={"draft": (READING,)})
    store.write(f"{RUN}/{READINGS_FILE}", dump_record(readings))
    assert read_outputs(RUN, blocks) == {"draft": (READING,)}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "no readings of this version"),
        (dump_record(DraftReadings(run_id="other", drafts={})), "of another run"),
        (dump_record(DraftReadings(run_id=RUN, drafts={})).replace(b"/1", b"/9"), "schema"),
    ],
)
def test_readings_that_are_none_are_told_once_and_count_for_nothing(
    store: FolderSink, said: list[str], data: bytes, reason: str
) -> None:
    store.write(f"{RUN}/{READINGS_FILE}", data)
    read_outputs = asked(store, said)
    assert read_outputs(RUN, []) == read_outputs(RUN, []) == {}
    (line,) = said
    assert reason in line


def test_what_cannot_be_put_down_is_tried_again(store: FolderSink, said: list[str]) -> None:
    read_outputs = asked(store, said)
    assert read_outputs(RUN, []) == {}
    assert "do not read the baseline's outputs yet: 0 outputs" in said[0]
    read_outputs(RUN, [block_of(store, spec_of())])
    assert len(outputs_in(store)) == 3


def test_of_a_class_so_many_are_read_and_of_each_case_alike(
    store: FolderSink, said: list[str]
) -> None:
    many = 2 * MOST_OUTPUTS_A_CLASS
    few = replace(case("structured", prompts=2), name="few")
    spec = spec_of(prompts=many)
    spec = replace(spec, cases=(*spec.cases, few))
    blocks = [
        block_of(store, replace(spec, cases=(own,)), number=number)
        for number, own in enumerate(spec.cases)
    ]
    asked(store, said, spec)(RUN, blocks)
    cases = [output.case for output in outputs_in(store)]
    assert cases == ["case", "few"] * 2 + ["case"] * (MOST_OUTPUTS_A_CLASS - 4)
    assert f"{MOST_OUTPUTS_A_CLASS} of the baseline's {many + 2} outputs" in said[0]


@pytest.mark.parametrize(
    "spec",
    [
        replace(spec_of(), search=None),
        replace(spec_of(), search=replace(SEARCH, drafts_read_text=False)),
        replace(spec_of(), shape=replace(spec_of().shape, temperature=0.8)),
        replace(spec_of(), loads=(ConcurrencyLoad(concurrency=1, input_tokens=64),)),
    ],
)
def test_where_drafts_can_tell_nothing_nobody_is_asked(store: FolderSink, spec: RunSpec) -> None:
    assert draft_outputs(spec, store, print) is reads_nothing
    assert draft_outputs(spec_of(), store, print) is not reads_nothing


@pytest.fixture
def bucket() -> Iterator[S3Sink]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="results")
        yield S3Sink(client, bucket="results", prefix="runs")


@pytest.mark.emulator
def test_in_s3_too(bucket: S3Sink, said: list[str]) -> None:
    blocks = [block_of(bucket, spec_of())]
    read_outputs = asked(bucket, said)
    assert read_outputs(RUN, blocks) == {}
    assert len(outputs_in(bucket)) == 3
    readings = DraftReadings(run_id=RUN, drafts={"draft": (READING,)})
    bucket.write(f"{RUN}/{READINGS_FILE}", dump_record(readings))
    assert read_outputs(RUN, blocks) == {"draft": (READING,)}


@pytest.mark.emulator
def test_a_bucket_that_is_away_ends_nothing(said: list[str]) -> None:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        nowhere = S3Sink(client, bucket="nowhere", prefix="runs")
        assert asked(nowhere, said)(RUN, []) == {}
    assert "NoSuchBucket" in said[0]
