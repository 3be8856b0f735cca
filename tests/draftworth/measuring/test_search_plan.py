"""A search: which servers run when, which candidate it chooses, and how it is continued."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.acceptance import acceptance_of
from draftworth.measuring.load_engines import Planned
from draftworth.measuring.result_files import FolderSink
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.server_lifecycle import ReadRunsOutputs, reads_nothing
from draftworth.measuring.streamed_request import Client, Measured
from draftworth.records.findings import VERDICT_FILE
from draftworth.records.load_shapes import Load
from draftworth.records.readings import Reading
from draftworth.records.results import BlockResult, Limits, RunResult
from draftworth.records.run_folder import read_run
from draftworth.records.search_result import SEARCH_FILE, Search, SearchResult, read_search
from draftworth.records.transcripts import Transcript
from draftworth.speculation import steps_of
from tests.draftworth.measuring.fake_engine import (
    RUN_ID,
    FakeEngine,
    RecordingServers,
    history,
    run_pod,
    terminate,
)
from tests.draftworth.searching.candidates import candidate
from tests.support.blocks import make_failed_record, make_record
from tests.support.readings import make_reading
from tests.support.runners import make_runner
from tests.support.specifications import PRICE, case, endpoint, sampling, specification
from tests.support.stream_server import StreamServer

TOKENS = 101
# Whether the draft predicts each token: five times right, then once wrong. So a window of five
# yields six tokens per step.
HITS = ("111110" * TOKENS)[: TOKENS - 1]
WINDOWS = range(2, 11)
BEST = "draft-k5"


def seconds_per_token(variant: str) -> float:
    """Return a variant's seconds per token: a step takes 10 ms, and 2 ms more per drafted token."""
    if variant == "baseline":
        return 0.010
    window = int(variant.rpartition("k")[2])
    steps = sum(1 for _ in steps_of([hit == "1" for hit in HITS], checked=window))
    return 0.010 * (1 + 0.2 * window) * steps / len(HITS)


class PlantedEngine(FakeEngine):
    """An engine whose latencies depend on the variant that a request goes to (`seconds_per_token`).

    failing: the variant that answers every second request with an error.
    mute: the variant that does not answer the first prompt.
    """

    failing = mute = ""

    def answer(self, client: Client, request: Planned, load: Load) -> Measured:
        variant = re.findall(r"/(\w[^/]*)/\.\.", client.base_url)[0]
        is_mute = request.request_id.endswith(f"/{self.mute}-gate")
        if is_mute or (variant == self.failing and request.request_id.endswith(("1", "3"))):
            failed = make_failed_record(request_id=request.request_id, prompt_id=request.prompt.id)
            return Measured(record=failed, transcript=Transcript(request_id=failed.request_id))
        noise = hashlib.sha256(f"{request.request_id} {variant}".encode()).digest()[0] / 255 - 0.5
        itl_s = seconds_per_token(variant) * (1 + 0.01 * noise)
        record = make_record(
            request_id=request.request_id,
            prompt_id=request.prompt.id,
            inter_token_latency_s=itl_s,
            ttft_s=0.05,
            end_to_end_latency_s=0.05 + (TOKENS - 1) * itl_s,
            number_output_tokens=TOKENS,
        )
        return Measured(
            record=record, transcript=Transcript(request_id=record.request_id, text="x")
        )


def search_spec(url: str, **limits: Any) -> RunSpec:
    """Return a search with windows 2 to 10 of one draft, each in the slot beside the baseline's."""
    candidates = tuple(map(candidate, WINDOWS))
    variants = ["baseline", *(c.variant for c in candidates)]
    return specification(
        tuple(
            endpoint(v, int(v != "baseline"), base_url=f"{url}/{v}/..", max_tokens_per_step=None)
            for v in variants
        ),
        cases=(case("structured"),),
        sampling=sampling(min_requests=8, max_requests=8),
        search=Search(
            candidates=candidates,
            drafts_read_text=True,
            step_cost_per_draft=(0.05, 0.4),
            within=0.03,
            **limits,
        ),
    )


def readings(_run_id: str, blocks: Sequence[BlockResult]) -> Mapping[str, Sequence[Reading]]:
    """Return a reading (which tokens the draft predicts) of each answer of the baseline."""
    answered = {r.prompt_id for b in blocks if b.variant == "baseline" for r in b.requests}
    made = (
        make_reading(HITS, id=prompt_id, prompt_class="structured", prompt_id=prompt_id)
        for prompt_id in sorted(answered)
    )
    return {"draft": tuple(made)}


def run(
    spec: RunSpec,
    folder: Path,
    servers: RecordingServers | None = None,
    *,
    happen: Callable[[], object] | None = None,
    at: int = 0,
    failing: str = "",
    mute: str = "",
    read_outputs: ReadRunsOutputs = readings,
) -> RunResult | None:
    """Let one pod measure a search, and return the run's result; None if it was terminated."""
    engine = PlantedEngine(happen, at=at)
    engine.failing, engine.mute = failing, mute
    made = make_runner(
        spec,
        FolderSink(folder),
        run_id=RUN_ID,
        history=history(folder),
        servers=servers or RecordingServers(),
        engine=engine,
        read_outputs=read_outputs,
    )
    return run_pod(made)


def search_result_in(folder: Path) -> SearchResult:
    search_result = read_search(folder / RUN_ID, RUN_ID)
    assert search_result
    return search_result


@dataclass(frozen=True)
class Whole:
    """The results of a search that was not interrupted."""

    folder: Path
    result: RunResult
    servers: RecordingServers
    search_result: SearchResult


@pytest.fixture(scope="module")
def whole(healthy: StreamServer, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder, servers = tmp_path_factory.mktemp("whole"), RecordingServers()
    result = run(search_spec(healthy.base_url), folder, servers)
    assert result
    return Whole(
        folder=folder, result=result, servers=servers, search_result=search_result_in(folder)
    )


def test_it_finds_the_best_window_and_measures_few(whole: Whole) -> None:
    result, search_result = whole.result, whole.search_result
    assert (result.status, result.shortened) == ("complete", "")
    assert (search_result.best, search_result.expected_to_pay) == (BEST, True)
    assert search_result.order[0] == "draft-k7"
    assert len(search_result.order) <= 4
    assert search_result.ended == "no other candidate is likely to be cheaper by more than 3%"
    # The baseline's server keeps running: it is in every call, and no call asks for a restart.
    assert whole.servers.calls == [(("baseline-0", f"{v}-1"), False) for v in search_result.order]
    assert result.variants == ("baseline", *sorted(search_result.order, key=lambda v: int(v[7:])))
    assert (whole.folder / RUN_ID / VERDICT_FILE).exists()


def test_each_candidate_is_paired_with_its_own_baseline(whole: Whole) -> None:
    blocks = read_run(whole.folder / RUN_ID).blocks
    by_round: dict[int, list[str]] = {}
    for block in blocks:
        by_round.setdefault(block.round, []).append(block.variant)
    assert all(
        sorted(v == "baseline" for v in variants) == [False, True] for variants in by_round.values()
    )
    assert {b.slot for b in blocks if b.variant != "baseline"} == {1}


def test_what_was_expected_stands_beside_what_was_measured(whole: Whole) -> None:
    measured = {r.variant: r for r in whole.search_result.results if r.measured}
    assert measured.keys() == set(whole.search_result.order)
    assert measured["draft-k7"].predicted is None
    best = measured[BEST]
    assert best.measured
    assert best.predicted
    assert best.predicted.low <= best.measured.value <= best.predicted.high
    truth = (0.05 + 100 * seconds_per_token(BEST)) / (0.05 + 100 * 0.010)
    assert best.cost.value == pytest.approx(truth, rel=0.01)


def test_a_forecast_replaces_readings(healthy: StreamServer, whole: Whole, tmp_path: Path) -> None:
    """A forecast with equal tokens per step leads to the same candidates, in the same order.

    Without forecast and readings, a search uses the chunks of its measured candidates, which show
    only the mean tokens per step.
    """
    spec = search_spec(healthy.base_url)
    assert spec.search
    read = readings(RUN_ID, read_run(whole.folder / RUN_ID).blocks)["draft"]
    forecast_tokens = {
        c.variant: {
            name: window.tokens_per_step.value
            for name, (window,) in acceptance_of(read, [c.checked]).items()
        }
        for c in spec.search.candidates
    }
    forecast = replace(spec, search=replace(spec.search, forecast=forecast_tokens))
    run(forecast, tmp_path / "forecast", read_outputs=reads_nothing)
    run(spec, tmp_path / "nothing", read_outputs=reads_nothing)

    search_result, without = (
        search_result_in(tmp_path / "forecast"),
        search_result_in(tmp_path / "nothing"),
    )
    assert search_result.order == whole.search_result.order
    assert search_result.best == BEST
    assert search_result.search.forecast == forecast_tokens
    assert {r.variant: r.tokens_per_step for r in search_result.results} == forecast_tokens
    assert without.order != search_result.order
    assert len(without.order) >= 2
    assert without.best


def test_a_search_resumes_at_its_current_candidate(
    healthy: StreamServer, whole: Whole, tmp_path: Path
) -> None:
    """A pod is terminated in every third block.

    A candidate has four blocks, so each of them is interrupted for some candidate.
    """
    spec, order = search_spec(healthy.base_url), whole.search_result.order
    for at in range(2, 4 * len(order) + 1, 3):
        folder = tmp_path / str(at)
        assert run(spec, folder, happen=terminate, at=at) is None
        servers = RecordingServers()
        assert run(spec, folder, servers)
        search_result = search_result_in(folder)
        assert (search_result.order, search_result.best, search_result.ended) == (
            order,
            whole.search_result.best,
            whole.search_result.ended,
        )
        left = order[(at - 1) // 4 :]
        assert servers.calls == [(("baseline-0", f"{v}-1"), False) for v in left]


def test_a_candidate_that_does_not_start_is_skipped(healthy: StreamServer, tmp_path: Path) -> None:
    result = run(search_spec(healthy.base_url), tmp_path, RecordingServers(failing=[2]))
    search_result = search_result_in(tmp_path)
    assert result
    assert result.status == "complete"
    assert list(search_result.failed.values()) == ["the API server answers HTTP 403"]
    assert search_result.failed.keys().isdisjoint({search_result.best, *search_result.order})
    assert len(search_result.order) >= 2


def test_silent_candidates_are_skipped_silent_baselines_end_search(
    healthy: StreamServer, tmp_path: Path
) -> None:
    result = run(search_spec(healthy.base_url), tmp_path / "candidate", mute="draft-k7")
    assert result
    assert result.status == "complete"
    reason = search_result_in(tmp_path / "candidate").failed["draft-k7"]
    assert reason.startswith("gate `variant answers`: draft-k7 at ")

    servers = RecordingServers()
    result = run(search_spec(healthy.base_url), tmp_path / "base", servers, mute="baseline")
    assert result
    assert result.status == "failed"
    assert result.reason.startswith("gate `baseline answers`: baseline at ")
    assert {names for names, _ in servers.calls} == {("baseline-0", "draft-k7-1")}


def test_a_candidate_with_failed_requests_is_not_best(
    healthy: StreamServer, tmp_path: Path
) -> None:
    result = run(search_spec(healthy.base_url), tmp_path, failing=BEST)
    search_result = search_result_in(tmp_path)
    assert result
    assert result.status == "complete"
    assert "those that are left may be the easy ones" in search_result.failed[BEST]
    assert search_result.best
    assert search_result.best != BEST


def test_a_candidate_outside_the_limits_is_not_best(healthy: StreamServer, tmp_path: Path) -> None:
    """The E2E limit leaves 1% less time for decoding than the first candidate takes."""
    limits = Limits(e2e_p95_s=0.05 + 100 * seconds_per_token("draft-k7") * 0.99)
    spec = replace(
        search_spec(healthy.base_url),
        limits=limits,
        # A p95 needs at least a hundred requests.
        sampling=sampling(requests_per_round=50, min_requests=200, max_requests=200),
    )
    run(spec, tmp_path)
    search_result = search_result_in(tmp_path)
    assert search_result.failed.keys() == {"draft-k7"}
    assert search_result.best == BEST


@pytest.mark.parametrize(("after", "status", "tried"), [(0, "failed", 2), (1, "complete", 3)])
def test_it_ends_where_nothing_starts_any_more(
    healthy: StreamServer, tmp_path: Path, after: int, status: str, tried: int
) -> None:
    servers = RecordingServers(failing=range(after + 1, 99))
    result = run(search_spec(healthy.base_url), tmp_path, servers)
    assert result
    assert result.status == status
    assert len(servers.calls) == tried
    assert (tmp_path / RUN_ID / SEARCH_FILE).exists() == (status == "complete")


@pytest.mark.parametrize(
    ("limits", "more", "why"),
    [
        ({"tokens_per_day": 1e-9}, False, "can be expected to save"),
        ({"tokens_per_day": 1e12}, True, "no other candidate"),
        ({"hours": 1e-9}, False, "search.stop.last_start_hours is 1e-09"),
    ],
)
def test_it_begins_no_candidate_beyond_time_or_savings(
    healthy: StreamServer, tmp_path: Path, limits: dict[str, float], more: bool, why: str
) -> None:
    result = run(replace(search_spec(healthy.base_url, **limits), price=PRICE), tmp_path)
    search_result = search_result_in(tmp_path)
    assert result
    assert result.status == "complete"
    assert (len(search_result.order) > 1) is more
    assert why in search_result.ended
