"""The measuring program: rounds of every case against every variant, until the answer is known.

Result files are written as each block completes; `run.json` comes last, whatever happened.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from draftbench.errors import DraftbenchError
from draftbench.measuring.client import Client, Measured
from draftbench.measuring.counters import read_metrics, speculation_between, timings_between
from draftbench.measuring.http import HttpError, get_text
from draftbench.measuring.llmperf_summary import llmperf_summary
from draftbench.measuring.load import AsyncioEngine, LoadEngine, Planned
from draftbench.measuring.runspec import Endpoint, RunSpec, Sampling
from draftbench.measuring.scheduling import EventLoopLag
from draftbench.measuring.sink import Sink, SinkError
from draftbench.prompts import Case
from draftbench.results import (
    BLOCKS_FOLDER,
    LLMPERF_RESPONSES_SUFFIX,
    LLMPERF_SUMMARY_SUFFIX,
    RESULT_SCHEMA,
    RESULT_SUFFIX,
    RUN_FILE,
    RUN_SCHEMA,
    TRANSCRIPT_SUFFIX,
    BlockResult,
    Load,
    RunResult,
    RunStatus,
    dump_block,
    dump_run,
    llmperf_responses,
)
from draftbench.statistics import Estimate
from draftbench.verdict import Group, itl_speedup, requests_short

Progress = Callable[[str], None]

READY_POLL_SECONDS = 1.0


def rounds(sampling: Sampling) -> int:
    """Rounds that `max_requests` has room for, at least one."""
    return max(1, sampling.max_requests // sampling.requests_per_round)


class NotReadyError(DraftbenchError):
    """A server was not ready by the deadline."""


def new_run_id(experiment: str, *, now: datetime | None = None) -> str:
    """A run's id: sorts by time and cannot collide."""
    moment = now or datetime.now(UTC)
    return f"{experiment}-{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


@dataclass(kw_only=True)
class Runner:
    """One run. `sink` gets names relative to the results root, run id first."""

    spec: RunSpec
    sink: Sink
    run_id: str
    progress: Progress
    scheduling: str
    api_key: str | None = None
    wall_clock: Callable[[], float] = time.time
    make_client: Callable[..., Client] = Client
    engine: LoadEngine = field(default_factory=AsyncioEngine)
    ready_poll_seconds: float = READY_POLL_SECONDS
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _blocks: list[BlockResult] = field(default_factory=list)
    _unwritten: dict[str, bytes] = field(default_factory=dict)

    async def run(self) -> RunResult:
        """Measure everything; the result says whether the run is complete, and if not, why.

        A cancelled run (a signal, a deadline) still writes its `run.json`, as failed.
        """
        started_at_unix_s = self.wall_clock()
        reason = "ended before the last block: interrupted, or a defect that the log shows"
        try:
            await self._wait_until_ready()
            await self._measure_all()
            reason = self._shortfall()
        except DraftbenchError as error:
            reason = str(error)
        finally:
            result = self._finish(started_at_unix_s, reason)
        return result

    async def _wait_until_ready(self) -> None:
        """Wait for `/health` of every server, at most the specification's deadline."""
        deadline = time.monotonic() + self.spec.ready_deadline_seconds
        for endpoint in self.spec.endpoints:
            self.progress(f"waiting for {endpoint.variant} at {endpoint.base_url}")
            answer = await self._health(endpoint)
            while answer != "ready":
                if time.monotonic() >= deadline:
                    raise NotReadyError(
                        f"{endpoint.variant} at {endpoint.base_url} was not ready within "
                        f"{self.spec.ready_deadline_seconds:g} s; last answer: {answer}"
                    )
                await asyncio.sleep(self.ready_poll_seconds)
                answer = await self._health(endpoint)

    async def _health(self, endpoint: Endpoint) -> str:
        try:
            status, _ = await get_text(
                f"{endpoint.base_url}/health", timeout_seconds=5, api_key=self.api_key
            )
        except HttpError as error:
            return str(error)
        except TimeoutError:
            return "no answer within 5 s"
        if status in (401, 403):
            raise NotReadyError(
                f"{endpoint.variant} at {endpoint.base_url} answers HTTP {status}: set the "
                "environment variable OPENAI_API_KEY to its key"
            )
        # Servers without a health endpoint answer 404: they answer.
        return "ready" if status in (200, 404) else f"HTTP {status}"

    async def _measure_all(self) -> None:
        """Round after round, until every class has its interval or its requests."""
        for load in self.spec.loads:
            open_classes = dict.fromkeys(case.prompt_class for case in self.spec.cases)
            for number in range(1, rounds(self.spec.sampling) + 1):
                await self._measure_round(load, number, set(open_classes))
                sent = number * self.spec.sampling.requests_per_round
                for name in list(open_classes):
                    if self._is_known_well_enough(name, load, sent):
                        del open_classes[name]
                if not open_classes:
                    break
            for name in open_classes:
                self._say_what_is_missing(name, load)

    async def _measure_round(self, load: Load, round_number: int, classes: set[str]) -> None:
        """Every case of the open classes against every variant, one variant loaded at a time.

        The order turns around from case to case and from round to round (ABBA), so that a drift of
        the machine falls on both variants alike.
        """
        for index, case in enumerate(self.spec.cases):
            if case.prompt_class not in classes:
                continue
            turned = (index + round_number) % 2 == 0
            endpoints = self.spec.endpoints[::-1] if turned else self.spec.endpoints
            if self.spec.parallel:
                await self._measure_together(case, endpoints, load, round_number)
            else:
                for endpoint in endpoints:
                    await self._measure_block(case, endpoint, load, round_number)

    async def _measure_together(
        self, case: Case, endpoints: Sequence[Endpoint], load: Load, round_number: int
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for endpoint in endpoints:
                group.create_task(self._measure_block(case, endpoint, load, round_number))

    async def _measure_block(
        self, case: Case, endpoint: Endpoint, load: Load, round_number: int
    ) -> None:
        number = next(self._numbers)
        client = self.make_client(
            base_url=endpoint.base_url, shape=self.spec.shape, api_key=self.api_key
        )
        warmup = self._plan(case, self.spec.sampling.warmup_requests, 0, f"{number:04d}-warmup")
        await self.engine.send(client, warmup, load, seed=self.spec.shape.seed)
        first = (round_number - 1) * self.spec.sampling.requests_per_round
        planned = self._plan(case, self.spec.sampling.requests_per_round, first, f"{number:04d}")
        before = await read_metrics(endpoint.base_url, api_key=self.api_key)
        started_at_unix_s = self.wall_clock()
        with EventLoopLag() as lag:
            seed = self.spec.shape.seed + round_number
            measured = await self.engine.send(client, planned, load, seed=seed)
        ended_at_unix_s = self.wall_clock()
        after = await read_metrics(endpoint.base_url, api_key=self.api_key)
        block = BlockResult(
            schema=RESULT_SCHEMA,
            run_id=self.run_id,
            experiment=self.spec.experiment,
            variant=endpoint.variant,
            prompt_class=case.prompt_class,
            case=case.name,
            round=round_number,
            block=number,
            model=self.spec.shape.model,
            load=load,
            started_at_unix_s=started_at_unix_s,
            ended_at_unix_s=ended_at_unix_s,
            warmup_requests=self.spec.sampling.warmup_requests,
            speculation=speculation_between(before, after),
            server=timings_between(before, after),
            event_loop_lag_s=lag.longest_s,
            requests=tuple(m.record for m in measured),
        )
        # Another thread: an upload takes its time, and a signal must be heard meanwhile.
        await asyncio.to_thread(self._write_block, block, measured)
        self._blocks.append(block)
        self.progress(f"[block {number}, round {round_number}] {_describe(block)}")

    def _plan(self, case: Case, requests: int, first: int, id_prefix: str) -> list[Planned]:
        """`requests` requests from the case's prompts in turn, starting with number `first`."""
        return [
            Planned(
                request_id=f"{self.run_id}/{id_prefix}-{index:05d}",
                prompt=case.prompts[(first + index) % len(case.prompts)],
            )
            for index in range(requests)
        ]

    def _is_known_well_enough(self, prompt_class: str, load: Load, sent: int) -> bool:
        """Whether a class needs no further round, and says why or why not."""
        sampling = self.spec.sampling
        if sent < sampling.min_requests:
            return False
        group = Group(prompt_class=prompt_class, load=load)
        speedups = self._speedups(group).values()
        widths = [speedup.relative_width if speedup else None for speedup in speedups]
        known = [width for width in widths if width is not None]
        if len(known) == len(widths) and max(known, default=0.0) <= sampling.target_interval_width:
            if known:
                self.progress(
                    f"{group.label}: speedup known to {max(known):.1%} after "
                    f"{sent} requests a case and variant"
                )
            return True
        return False

    def _say_what_is_missing(self, prompt_class: str, load: Load) -> None:
        target = self.spec.sampling.target_interval_width
        group = Group(prompt_class=prompt_class, load=load)
        for variant, speedup in self._speedups(group).items():
            missing = requests_short(speedup, target_width=target)
            width = speedup.relative_width if speedup else None
            known = f"known to {width:.1%}" if width is not None else "not known"
            more = f"; about {missing} more requests for {target:.0%}" if missing else ""
            self.progress(f"{group.label}: speedup of {variant} {known}{more}")

    def _speedups(self, group: Group) -> dict[str, Estimate | None]:
        """The speedup of each speculative variant in a group, from the blocks so far."""
        baseline = self.spec.baseline
        return {
            endpoint.variant: itl_speedup(
                self._blocks, group, variant=endpoint.variant, baseline=baseline
            )
            for endpoint in self.spec.endpoints
            if not endpoint.is_baseline
        }

    def _write_block(self, block: BlockResult, measured: Sequence[Measured]) -> None:
        """Raw evidence first, then the result file, then what is derived from it."""
        stem = f"{BLOCKS_FOLDER}/{block.stem}"
        self._write(f"{stem}{TRANSCRIPT_SUFFIX}", _transcript(measured))
        self._write(f"{stem}{RESULT_SUFFIX}", dump_block(block))
        self._write(f"{stem}{LLMPERF_RESPONSES_SUFFIX}", llmperf_responses(block))
        self._write(f"{stem}{LLMPERF_SUMMARY_SUFFIX}", llmperf_summary(block))

    def _write(self, name: str, data: bytes) -> None:
        """A file that cannot be written now is kept and tried again before the run ends."""
        try:
            self.sink.write(f"{self.run_id}/{name}", data)
        except SinkError as error:
            self.progress(f"not written yet, will be tried again: {error}")
            self._unwritten[name] = data

    def _finish(self, started_at_unix_s: float, reason: str) -> RunResult:
        kept, self._unwritten = self._unwritten, {}
        for name, data in kept.items():
            self._write(name, data)
        if self._unwritten:
            names = ", ".join(self._unwritten)
            reason = (
                f"{reason}; " * bool(reason) + f"result files that could not be written: {names}"
            )
        status: RunStatus = "failed" if reason else "complete"
        result = RunResult(
            schema=RUN_SCHEMA,
            run_id=self.run_id,
            experiment=self.spec.experiment,
            status=status,
            reason=reason,
            started_at_unix_s=started_at_unix_s,
            ended_at_unix_s=self.wall_clock(),
            variants=tuple(e.variant for e in self.spec.endpoints),
            baseline=self.spec.baseline,
            blocks=tuple(block.stem for block in self._blocks),
            max_tokens_per_step={e.variant: e.max_tokens_per_step for e in self.spec.endpoints},
            target_interval_width=self.spec.sampling.target_interval_width,
            class_weights=self.spec.class_weights,
            price=self.spec.price,
            scheduling=self.scheduling,
        )
        self.sink.write(f"{self.run_id}/{RUN_FILE}", dump_run(result))
        return result

    def _shortfall(self) -> str:
        """Why a run that measured every block is not complete; empty if it is."""
        empty = [b for b in self._blocks if all(r.failed for r in b.requests)]
        if not empty:
            return ""
        return (
            f"every request failed in {len(empty)} of {len(self._blocks)} blocks, first in "
            f"{empty[0].stem}: {_first_error(empty[0])}"
        )


def _first_error(block: BlockResult) -> str:
    """Code and message of a block's first failure, cut to a line."""
    failed = next(r for r in block.requests if r.failed)
    return f"{failed.error_code}: {' '.join(failed.error_msg.split())[:200]}"


def _transcript(measured: Sequence[Measured]) -> bytes:
    lines = (
        json.dumps(
            {
                "request_id": m.record.request_id,
                "text": m.text,
                "chunk_offsets_us": m.chunk_offsets_us,
                "chunk_tokens": m.chunk_tokens,
            },
            separators=(",", ":"),
        )
        for m in measured
    )
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def _describe(block: BlockResult) -> str:
    counted = [r for r in block.requests if r.counts]
    latencies = sorted(r.inter_token_latency_s for r in counted if r.inter_token_latency_s)
    middle = f"{latencies[len(latencies) // 2] * 1e3:.2f} ms/token" if latencies else "no figures"
    failed = sum(r.failed for r in block.requests)
    spoilt = sum(r.spoilt is not None for r in block.requests)
    notes = [f"{failed} failed: {_first_error(block)}"] if failed else []
    notes += [f"{spoilt} spoilt"] * bool(spoilt)
    suffix = f" ({', '.join(notes)})" if notes else ""
    return f"{block.prompt_class}/{block.case} {block.load.label} {block.variant}: {middle}{suffix}"
