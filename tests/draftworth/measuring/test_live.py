"""A winner that serves: what a look finds, when it drifts, and all that ends it.

The server is real HTTP; the clock and the pauses are not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.drift import LOOKS_NEEDED
from draftworth.measuring.live import LiveProbes
from draftworth.measuring.readiness import Readiness
from draftworth.measuring.run_specification import RunSpec, WinnerStays
from draftworth.measuring.sink import FolderSink, SinkError
from draftworth.records.codec import load_record
from draftworth.records.live import KeptWinner, LiveProbe, live_key
from draftworth.records.server_state import ServerState
from draftworth.records.serving_limits import ServingLimits
from tests.draftworth.measuring.specifications import case, endpoint, specification
from tests.support.sinks import RefusingSink
from tests.support.stream_server import (
    Request,
    Step,
    StreamServer,
    Write,
    completion,
    plain,
    stream_server,
)

RUN_ID, NOW = "run-1", 1_700_000_000.0
PROBE_SECONDS = 60.0
CLASSES = {"structured": 0.8, "open_ended": 0.2}
# With so many tokens a step it pays, and with so many it does not; 2 break even.
WELL, BAD, BREAK_EVEN = 4, 1, 2.0


@dataclass
class FakeClock:
    """Moves when something pauses."""

    now: float = NOW
    pauses: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Server:
    """A winner: chunks of `yields` tokens, and counters that know of so many steps more.

    counts: None: without counters. status: of completions. healthy: asked at each look.
    """

    yields: int = WELL
    counts: bool = False
    status: str = "200 OK"
    healthy: Callable[[], bool] = lambda: True
    drafts: int = 0
    accepted: int = 0
    hangs: bool = False

    def __call__(self, request: Request) -> Iterable[Step]:
        if request.path == "/health":
            ok = self.healthy()
            return plain("200 OK" if ok else "503 Service Unavailable", b"")
        if request.path == "/metrics":
            return plain("200 OK" if self.counts else "404 Not Found", self._metrics())
        if self.status != "200 OK":
            return plain(self.status, b'{"message": "no room"}')
        if self.hangs:
            return completion(1, 1, gap_seconds=30)
        self.drafts += 2
        self.accepted += 2 * (self.yields - 1)
        return completion(1, self.yields, self.yields)

    def _metrics(self) -> bytes:
        values = {
            "num_drafts": self.drafts,
            "num_draft_tokens": 7 * self.drafts,
            "num_accepted_tokens": self.accepted,
        }
        lines = (f"vllm:spec_decode_{name}_total {n}" for name, n in values.items())
        return "\n".join(lines).encode()


def spec_of(url: str, **overrides: Any) -> RunSpec:
    servers = (endpoint("baseline", 0), endpoint("k7", 1, base_url=url))
    fields: dict[str, Any] = {
        "cases": tuple(case(name) for name in CLASSES),
        "class_weights": CLASSES,
        "after": WinnerStays(replicas="one"),
        "ready_deadline_seconds": 0.05,
    }
    made = specification(servers, **{**fields, **overrides})
    return replace(made, shape=replace(made.shape, output_tokens=512))


def limits(looks: float, **overrides: Any) -> ServingLimits:
    """A budget for so many looks."""
    fields: dict[str, Any] = {
        "serve_until_unix_s": None,
        "budget_usd": looks * PROBE_SECONDS / 3600,
        "usd_per_hour": {"baseline": 1.0, "k7": 1.0},
        "probe_seconds": PROBE_SECONDS,
    }
    return ServingLimits(**{**fields, **overrides})


@dataclass
class Seen:
    """What became of a winner."""

    reason: str
    probes: list[LiveProbe]
    lines: list[str]
    clock: FakeClock


def serve(
    server: StreamServer,
    folder: Path,
    allowed: ServingLimits | Callable[[], ServingLimits],
    *,
    kept: KeptWinner | None = None,
    spec: RunSpec | None = None,
    store: FolderSink | None = None,
    clock: FakeClock | None = None,
    state: ServerState | None = None,
    **overrides: Any,
) -> Seen:
    clock = clock or FakeClock()
    lines: list[str] = []
    probes = LiveProbes(
        spec=spec or spec_of(server.base_url),
        kept=kept or winner(),
        store=store or FolderSink(folder),
        limits=allowed if callable(allowed) else lambda: allowed,
        progress=lines.append,
        readiness=Readiness(
            api_key=None,
            progress=lines.append,
            clock=clock,
            poll_seconds=0.001,
            server_state=lambda _: state,
        ),
        clock=clock,
        sleep=clock.sleep,
        **overrides,
    )
    return Seen(asyncio.run(probes.serve()), read(folder), lines, clock)


def winner(**overrides: Any) -> KeptWinner:
    fields: dict[str, Any] = {
        "run_id": RUN_ID,
        "variant": "k7",
        "servers": ("k7-1",),
        "since_unix_s": NOW,
        "break_even_tokens_per_step": BREAK_EVEN,
    }
    return KeptWinner(**{**fields, **overrides})


def read(folder: Path) -> list[LiveProbe]:
    files = sorted((folder / "live" / RUN_ID).glob("*.json"))
    return [load_record(LiveProbe, file.read_bytes()) for file in files]


def posts(server: StreamServer) -> list[Request]:
    return [request for request in server.requests if request.method == "POST"]


def test_each_look_asks_every_class_once_and_is_a_file(tmp_path: Path) -> None:
    with stream_server(Server()) as server:
        seen = serve(server, tmp_path, limits(3))
        asked = [request.json["messages"][0]["content"] for request in posts(server)]

    assert asked == [*CLASSES] * 3
    assert [probe.number for probe in seen.probes] == [1, 2, 3]
    first = seen.probes[0]
    assert (first.experiment, first.run_id, first.variant) == ("x", RUN_ID, "k7")
    assert [c.prompt_class for c in first.classes] == [*CLASSES]
    assert all((c.requests, c.failed, c.tokens_per_step) == (1, 0, WELL) for c in first.classes)
    assert None not in [figure for c in first.classes for figure in (c.ttft_s, c.itl_s, c.e2e_s)]
    assert first.margin == pytest.approx(WELL / BREAK_EVEN)
    assert "look 1 at k7: structured" in seen.lines[0]
    assert "4.00 tokens a step by probe, 2.00 x break-even" in seen.lines[0]


def test_prompts_come_in_turn_case_by_case(tmp_path: Path) -> None:
    cases = tuple(
        replace(
            case("structured", prompts=2),
            name=name,
            prompts=tuple(
                replace(p, messages=({"role": "user", "content": f"{name}{i}"},))
                for i, p in enumerate(case("structured", prompts=2).prompts)
            ),
        )
        for name in ("a", "b")
    )
    with stream_server(Server()) as server:
        one_class = spec_of(server.base_url, cases=cases, class_weights={"structured": 1.0})
        serve(server, tmp_path, limits(5), spec=one_class)
        asked = [request.json["messages"][0]["content"] for request in posts(server)]
    assert asked == ["a0", "b0", "a1", "b1", "a0"]


def test_without_counters_the_mix_is_that_of_all_tokens_by_all_steps(tmp_path: Path) -> None:
    class Mixed(Server):
        def __call__(self, request: Request) -> Iterable[Step]:
            is_structured = b"structured" in request.body
            return completion(1, 4, 4) if is_structured else super().__call__(request)

    with stream_server(Mixed(yields=1)) as server:
        (probe,) = serve(server, tmp_path, limits(1)).probes
    assert (probe.source, probe.acceptance) == ("probe", None)
    assert probe.tokens_per_step == pytest.approx(1 / (0.8 / 4 + 0.2 / 1))


def test_steps_are_those_that_the_server_tells_where_chunks_came_merged(tmp_path: Path) -> None:
    """As in the run's figures and in its break-even."""

    class Telling(Server):
        def __call__(self, request: Request) -> Iterable[Step]:
            steps = list(super().__call__(request))
            if request.method != "POST":
                return steps
            drafts = {"num_spec_steps": 4, "num_draft_tokens": 28, "num_accepted_draft_tokens": 4}
            usage = {"prompt_tokens": 11, "completion_tokens": 9}
            told = {"choices": [], "usage": usage, "metrics": {"speculative_decoding": drafts}}
            event = b"data: " + json.dumps(told).encode() + b"\n\n"
            return [*steps[:-2], Write(event), steps[-1]]

    with stream_server(Telling(yields=4)) as server:
        (probe,) = serve(server, tmp_path, limits(1)).probes
    assert {c.tokens_per_step for c in probe.classes} == {2.0}, "two chunks of four tokens"
    assert probe.tokens_per_step == pytest.approx(2.0)


def with_others(made: Server) -> Callable[[Request], Iterable[Step]]:
    """While a probe is answered, others have 90 steps of one token and a half."""

    def script(request: Request) -> Iterable[Step]:
        if request.method == "POST":
            made.drafts += 90
            made.accepted += 45
        return made(request)

    return script


def test_counters_tell_of_everybody_elses_traffic(tmp_path: Path) -> None:
    """The probe's own chunks have four tokens."""
    with stream_server(with_others(Server(counts=True))) as server:
        seen = serve(server, tmp_path, limits(2))
    for probe in seen.probes:
        assert probe.source == "counters"
        assert probe.tokens_per_step == pytest.approx(1 + 45 / 90)
        assert probe.acceptance == pytest.approx((45 + 6) / (7 * 92))
        assert probe.classes[0].tokens_per_step == WELL
    assert len(seen.probes) == 2


def test_counters_of_the_probe_alone_are_of_another_mix_and_not_taken(tmp_path: Path) -> None:
    """One request of each class: by all tokens and steps that would be two and a half."""

    class Mixed(Server):
        def __call__(self, request: Request) -> Iterable[Step]:
            self.yields = 4 if b"structured" in request.body else 1
            return super().__call__(request)

    with stream_server(Mixed(counts=True)) as server:
        (probe,) = serve(server, tmp_path, limits(1)).probes
    assert probe.source == "probe"
    assert probe.tokens_per_step == pytest.approx(1 / (0.8 / 4 + 0.2 / 1))
    assert probe.acceptance == pytest.approx(6 / (7 * 4))


def test_a_server_that_starts_again_counts_from_nothing_and_the_probe_tells(tmp_path: Path) -> None:
    made = Server(counts=True, drafts=1000, accepted=1000)

    class Clock(FakeClock):
        async def sleep(self, seconds: float) -> None:
            made.drafts = made.accepted = 0
            await super().sleep(seconds)

    with stream_server(with_others(made)) as server:
        seen = serve(server, tmp_path, limits(2), clock=Clock())
    assert [probe.source for probe in seen.probes] == ["counters", "probe"]


def test_drift_is_told_once(tmp_path: Path) -> None:
    with stream_server(Server(yields=BAD)) as server:
        seen = serve(server, tmp_path, limits(LOOKS_NEEDED + 2))
    drifted = [probe.drifted for probe in seen.probes]
    assert drifted == [False] * (LOOKS_NEEDED - 1) + [True] * 3
    (turn,) = (line for line in seen.lines if not line.startswith("look"))
    assert turn.startswith("DRIFT: k7 yields 0.50 of the tokens a step that it needs")


def test_it_is_well_again_when_the_looks_together_are_above_break_even(tmp_path: Path) -> None:
    store = FolderSink(tmp_path)
    with stream_server(Server(yields=BAD)) as server:
        serve(server, tmp_path, limits(LOOKS_NEEDED))
    with stream_server(Server(yields=WELL)) as server:
        seen = serve(server, tmp_path, limits(3 * LOOKS_NEEDED), store=store)
    assert [line for line in seen.lines if "well again" in line] == [
        "k7 is well again: it is above break-even, no drift any more"
    ]
    assert seen.probes[LOOKS_NEEDED].drifted
    assert not seen.probes[-1].drifted


def test_traffic_that_is_what_was_measured_never_drifts(tmp_path: Path) -> None:
    with stream_server(Server(yields=WELL)) as server:
        seen = serve(server, tmp_path, limits(2 * LOOKS_NEEDED))
    assert len(seen.probes) == 2 * LOOKS_NEEDED
    assert not any(probe.drifted for probe in seen.probes)
    assert not any("DRIFT" in line for line in seen.lines)


def test_a_baseline_has_nothing_to_drift_from(tmp_path: Path) -> None:
    plain_one = winner(variant="baseline", servers=("baseline-0",), break_even_tokens_per_step=None)
    with stream_server(Server(yields=BAD)) as server:
        servers = (endpoint("baseline", 0, base_url=server.base_url), endpoint("k7", 1))
        spec = replace(spec_of(server.base_url), endpoints=servers)
        seen = serve(server, tmp_path, limits(LOOKS_NEEDED), kept=plain_one, spec=spec)
    assert len(seen.probes) == LOOKS_NEEDED
    assert {(p.margin, p.drifted, p.tokens_per_step) for p in seen.probes} == {(None, False, 1.0)}


def test_its_budget_ends_it(tmp_path: Path) -> None:
    with stream_server(Server()) as server:
        seen = serve(server, tmp_path, limits(2.5))
    assert len(seen.probes) == 3
    assert seen.clock.pauses[-1] == pytest.approx(PROBE_SECONDS / 2, abs=1)
    assert seen.reason.startswith("the budget of serving is spent: 0.0416667 USD, at 1 USD an hour")
    assert seen.reason.endswith("for 2.5 minutes")


def test_its_time_ends_it_before_the_budget(tmp_path: Path) -> None:
    with stream_server(Server()) as server:
        until = NOW + 1.5 * PROBE_SECONDS
        seen = serve(server, tmp_path, limits(10, serve_until_unix_s=until))
    assert len(seen.probes) == 2
    assert seen.reason == "the time of serving is over: until 2023-11-14 22:14 UTC"


def test_limits_that_are_moved_count_at_once(tmp_path: Path) -> None:
    asked: list[int] = []

    def moved() -> ServingLimits:
        asked.append(1)
        return limits(2 if len(asked) < 5 else 4)

    with stream_server(Server()) as server:
        seen = serve(server, tmp_path, moved)
    assert len(seen.probes) == 4


def test_a_budget_that_is_spent_already_asks_nothing(tmp_path: Path) -> None:
    with stream_server(Server()) as server:
        late = FakeClock(NOW + 10 * PROBE_SECONDS)
        seen = serve(server, tmp_path, limits(3), clock=late)
        assert not server.requests
    assert (seen.probes, "budget" in seen.reason) == ([], True)


def test_a_later_pod_goes_on_with_the_next_look_and_knows_the_earlier_ones(tmp_path: Path) -> None:
    with stream_server(Server(yields=BAD)) as server:
        serve(server, tmp_path, limits(LOOKS_NEEDED - 1))
        late = FakeClock(NOW + (LOOKS_NEEDED - 1) * PROBE_SECONDS)
        seen = serve(server, tmp_path, limits(LOOKS_NEEDED), clock=late)
    assert [probe.number for probe in seen.probes] == [*range(1, LOOKS_NEEDED + 1)]
    assert [probe.drifted for probe in seen.probes][-2:] == [False, True]


def test_looks_without_figures_end_no_finding_also_for_a_later_pod(tmp_path: Path) -> None:
    made = Server(yields=BAD)
    ends_at_unix_s = NOW

    def more(looks: int) -> Seen:
        """By another pod."""
        nonlocal ends_at_unix_s
        clock = FakeClock(ends_at_unix_s)
        ends_at_unix_s += looks * PROBE_SECONDS
        return serve(server, tmp_path, limits((ends_at_unix_s - NOW) / PROBE_SECONDS), clock=clock)

    with stream_server(made) as server:
        more(LOOKS_NEEDED)
        made.status = "500 Internal Server Error"
        more(2)
        made.status = "200 OK"
        more(1)
        made.status = "500 Internal Server Error"
        seen = more(2 * LOOKS_NEEDED + 2)
        assert [p.drifted for p in seen.probes] == [False] * 11 + [True] * 30
        assert not any("well again" in line for line in seen.lines)
        made.status, made.yields = "200 OK", WELL
        seen = more(LOOKS_NEEDED)
    assert [p.drifted for p in seen.probes][-2:] == [True, False]


def test_earlier_looks_that_cannot_be_read_count_for_nothing(tmp_path: Path) -> None:
    damaged = tmp_path / live_key(RUN_ID, 7)
    FolderSink(tmp_path).write(live_key(RUN_ID, 7), b"{}")

    class Clock(FakeClock):
        async def sleep(self, seconds: float) -> None:
            damaged.unlink(missing_ok=True)  # `serve` reads all when it is over
            await super().sleep(seconds)

    with stream_server(Server()) as server:
        seen = serve(server, tmp_path, limits(1), clock=Clock())
    assert "earlier looks count for nothing" in seen.lines[0]
    assert [probe.number for probe in seen.probes] == [8]


def test_a_server_that_answers_500_gives_looks_without_figures(tmp_path: Path) -> None:
    with stream_server(Server(status="500 Internal Server Error")) as server:
        seen = serve(server, tmp_path, limits(LOOKS_NEEDED + 1))
    assert len(seen.probes) == LOOKS_NEEDED + 1
    for probe in seen.probes:
        assert all((c.failed, c.ttft_s) == (1, None) for c in probe.classes)
        assert (probe.tokens_per_step, probe.margin, probe.drifted) == (None, None, False)
    assert "structured failed: 500: " in seen.lines[0]


def test_a_server_that_hangs_fails_the_look_in_time(tmp_path: Path) -> None:
    with stream_server(Server(hangs=True)) as server:
        spec = spec_of(server.base_url)
        spec = replace(spec, shape=replace(spec.shape, timeout_seconds=0.1))
        (probe,) = serve(server, tmp_path, limits(1), spec=spec).probes
    assert [c.failed for c in probe.classes] == [1, 1]
    assert probe.tokens_per_step is None


def test_one_class_that_fails_leaves_no_figure_of_another_mix(tmp_path: Path) -> None:
    class Half(Server):
        def __call__(self, request: Request) -> Iterable[Step]:
            if b"open_ended" in request.body:
                return plain("500 Internal Server Error", b"")
            return super().__call__(request)

    with stream_server(Half()) as server:
        (probe,) = serve(server, tmp_path, limits(1)).probes
    assert [c.failed for c in probe.classes] == [0, 1]
    assert probe.tokens_per_step is None


def test_a_server_that_is_gone_ends_it(tmp_path: Path) -> None:
    made = Server(status="500 Internal Server Error", healthy=lambda: len(asked) < 2)
    asked: list[int] = []

    def counting(request: Request) -> Iterable[Step]:
        if request.path == "/health":
            asked.append(1)
        return made(request)

    class Clock(FakeClock):
        """Waiting takes time, too."""

        def __call__(self) -> float:
            self.now += 0.01
            return self.now

    with stream_server(counting) as server:
        seen = serve(server, tmp_path, limits(5), clock=Clock())
    assert len(seen.probes) == 1
    assert seen.reason.startswith("its server is gone: k7 at http://")


def test_a_server_that_was_given_up_ends_it_at_once(tmp_path: Path) -> None:
    state = ServerState(
        server="k7-1",
        variant="k7",
        pod="k7-1-0",
        phase="given_up",
        start=3,
        since_unix_s=NOW + 1,
        reason="out of memory",
    )
    with stream_server(Server(healthy=lambda: False)) as server:
        slow = spec_of(server.base_url, start_allowance_seconds=3600.0)
        seen = serve(server, tmp_path, limits(500), spec=slow, state=state)
    assert "its server is gone: k7 was given up at its start 3: out of memory" in seen.reason


def test_one_that_comes_back_is_looked_at_again(tmp_path: Path) -> None:
    asked: list[int] = []

    def healthy() -> bool:
        asked.append(1)
        return len(asked) > 4

    with stream_server(Server(healthy=healthy)) as server:
        slow = spec_of(server.base_url, start_allowance_seconds=3600.0)
        seen = serve(server, tmp_path, limits(2), spec=slow)
    assert [probe.number for probe in seen.probes] == [1, 2]
    assert "budget" in seen.reason


def test_with_several_servers_each_is_asked_in_turn(tmp_path: Path) -> None:
    with stream_server(Server()) as one, stream_server(Server()) as other:
        servers = (
            endpoint("baseline", 0),
            endpoint("k7", 1, base_url=one.base_url),
            endpoint("k7", 0, base_url=other.base_url),
        )
        both = winner(servers=("k7-1", "k7-0"))
        spec = replace(spec_of(one.base_url), endpoints=servers)
        serve(one, tmp_path, limits(4), kept=both, spec=spec)
        assert [len(posts(server)) for server in (one, other)] == [4, 4]


def test_servers_that_the_run_does_not_know_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allowed: those of the run"):
        serve(StreamServer(base_url="http://x"), tmp_path, limits(1), kept=winner(servers=("z",)))


def test_a_look_that_cannot_be_written_is_in_the_log(tmp_path: Path) -> None:
    with stream_server(Server()) as server:
        store = RefusingSink(tmp_path, "000001.json")
        seen = serve(server, tmp_path, limits(2), store=store)
    assert [probe.number for probe in seen.probes] == [2]
    assert any(line.startswith("look 1 is not written: ") for line in seen.lines)


def test_where_the_looks_cannot_be_listed_another_pod_may(tmp_path: Path) -> None:
    class Shut(FolderSink):
        def names(self, folder: str) -> list[str]:
            raise SinkError(f"{folder}: denied")

    with stream_server(Server()) as server, pytest.raises(SinkError):
        serve(server, tmp_path, limits(1), store=Shut(tmp_path))


def test_it_ends_at_once_when_it_is_cancelled(tmp_path: Path) -> None:
    """As by SIGTERM, in the middle of a pause."""

    async def cancelled() -> None:
        began = asyncio.Event()

        async def forever(_seconds: float) -> None:
            began.set()
            await asyncio.Event().wait()

        running = asyncio.ensure_future(_probes(server, tmp_path, forever).serve())
        await began.wait()
        running.cancel()
        await running

    with stream_server(Server()) as server, pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert len(read(tmp_path)) == 1


def _probes(
    server: StreamServer, folder: Path, sleep: Callable[[float], Awaitable[None]]
) -> LiveProbes:
    return LiveProbes(
        spec=spec_of(server.base_url),
        kept=winner(),
        store=FolderSink(folder),
        limits=lambda: limits(10),
        progress=lambda _: None,
        readiness=Readiness(
            api_key=None,
            progress=lambda _: None,
            clock=FakeClock(),
            poll_seconds=0.001,
            server_state=lambda _: None,
        ),
        clock=FakeClock(),
        sleep=sleep,
    )
