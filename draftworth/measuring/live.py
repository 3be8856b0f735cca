"""A winner that goes on serving: looked at again and again, until its time or its money is over.

A look is one request of each prompt class, one after the other, by the client that measured, and
what the server has counted since the look before. The counters know everybody's traffic; without
them, or without anybody else, the probe's own answers tell how many tokens a step yields, which of
the same prompts stays what it was. Each look is a file (`records/live.py`); one that fails is a
look without figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from draftworth.analysis.drift import LOOKS_NEEDED, has_drifted
from draftworth.measuring.client import Client, Measured
from draftworth.measuring.clock import WallClock, unix_clock
from draftworth.measuring.counters import Reading, read_metrics, speculation_between
from draftworth.measuring.looks import (
    acceptance,
    by_chunks,
    by_others,
    class_of,
    line,
    margins,
    prompts_in_turn,
    turn,
)
from draftworth.measuring.readiness import READY, GivenUpError, NotReadyError, Readiness
from draftworth.measuring.request import request_seed
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.sink import SinkError, Store
from draftworth.measuring.threads import in_thread
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.live import KeptWinner, LiveProbe
from draftworth.records.results import LIVE_FOLDER, SpeculationCounters
from draftworth.records.serving_limits import ServingLimits
from draftworth.untrusted import one_line

# For a server that has stopped answering, where nothing says how long a start may take.
COMES_BACK_WITHIN_SECONDS = 60.0


@dataclass(kw_only=True)
class LiveProbes:
    """Looks at the winner of a run.

    spec: of the run, or with other prompts. store: that the probes go to, of a bucket its top
    level. limits: asked before each look, so that they may be moved. probes: those of a finding,
    also of earlier pods.
    """

    spec: RunSpec
    kept: KeptWinner
    store: Store
    limits: Callable[[], ServingLimits]
    progress: Callable[[str], None]
    readiness: Readiness
    api_key: str | None = None
    clock: WallClock = unix_clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    make_client: Callable[..., Client] = Client
    read_counters: Callable[..., Awaitable[Reading]] = read_metrics
    probes: list[LiveProbe] = field(default_factory=list)
    _counted: dict[str, Reading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = self.spec.servers_of(self.kept.variant)
        self._servers = [e for e in own if e.server in self.kept.servers]
        if not self._servers:
            raise ValueError(f"kept.servers: given {self.kept.servers}, allowed: those of the run")
        self._prompts = prompts_in_turn(self.spec)

    async def serve(self) -> str:
        """Look until it is over; why it is.

        Cancelled, it ends at once: the next pod goes on with the next look.
        """
        number = await in_thread(self._read_earlier) + 1
        if reason := self._why_over() or await self._wait():
            return reason
        await self._count()
        while not (reason := self._why_over()):
            began_at_unix_s = self.clock()
            reason = await self._look(number)
            if reason:
                return reason
            number += 1
            next_at_unix_s = began_at_unix_s + self.limits().probe_seconds
            pause_seconds = min(next_at_unix_s, self._ends_at_unix_s) - self.clock()
            await self.sleep(max(0.0, pause_seconds))
        return reason

    @property
    def _ends_at_unix_s(self) -> float:
        return self.limits().ends_at_unix_s(self.kept.variant, self.kept.since_unix_s)

    def _why_over(self) -> str:
        limits, now = self.limits(), self.clock()
        if now < self._ends_at_unix_s:
            return ""
        until_unix_s = limits.serve_until_unix_s
        if until_unix_s is not None and now >= until_unix_s:
            until = datetime.fromtimestamp(until_unix_s, UTC)
            return f"the time of serving is over: until {until:%Y-%m-%d %H:%M} UTC"
        usd = limits.usd_per_hour[self.kept.variant]
        hours = (now - self.kept.since_unix_s) / 3600
        return (
            f"the budget of serving is spent: {limits.budget_usd:g} USD, at {usd:g} USD an hour "
            f"for {hours * 60:.1f} minutes"
        )

    async def _look(self, number: int) -> str:
        """One look; why it was the last, empty: it was not."""
        began_at_unix_s = self.clock()
        endpoint = self._servers[number % len(self._servers)]
        client = self.make_client(
            base_url=endpoint.base_url, shape=self.spec.shape, api_key=self.api_key
        )
        measured: dict[str, Measured] = {}
        for name, prompts in self._prompts.items():
            measured[name] = await client.measure(
                prompts[(number - 1) % len(prompts)],
                request_id=f"{self.kept.run_id}/live-{number:06}-{name}",
                seed=request_seed(self.spec.shape, number - 1),
            )
        probe = self._probe(number, began_at_unix_s, measured, await self._count())
        await self._keep(probe, measured)
        if any(m.record.failed for m in measured.values()):
            return await self._wait()
        return ""

    def _probe(
        self,
        number: int,
        began_at_unix_s: float,
        measured: Mapping[str, Measured],
        counted: SpeculationCounters | None,
    ) -> LiveProbe:
        classes = tuple(class_of(name, m) for name, m in measured.items())
        others = by_others(counted, [m.record for m in measured.values()])
        probe = LiveProbe(
            experiment=self.spec.experiment,
            run_id=self.kept.run_id,
            variant=self.kept.variant,
            number=number,
            began_at_unix_s=began_at_unix_s,
            ended_at_unix_s=self.clock(),
            classes=classes,
            source="probe" if others is None else "counters",
            tokens_per_step=others or by_chunks(classes, self.spec.class_weights),
            acceptance=acceptance(counted),
            break_even_tokens_per_step=self.kept.break_even_tokens_per_step,
            drifted=False,
        )
        found = margins((*self.probes, probe))
        enough = len(found) >= LOOKS_NEEDED
        return replace(probe, drifted=has_drifted(found) if enough else self._was_drifted)

    @property
    def _was_drifted(self) -> bool:
        """Looks without figures neither make a finding nor end one."""
        return bool(self.probes) and self.probes[-1].drifted

    async def _keep(self, probe: LiveProbe, measured: Mapping[str, Measured]) -> None:
        """A look that cannot be written is one that nobody sees but the log."""
        was_drifted = self._was_drifted
        self.probes = [*self.probes[-2 * LOOKS_NEEDED :], probe]
        self.progress(line(probe, measured))
        if probe.drifted != was_drifted:
            self.progress(turn(probe, margins(self.probes)))
        try:
            await in_thread(self.store.write, probe.key, dump_record(probe))
        except SinkError as error:
            self.progress(f"look {probe.number} is not written: {error}")

    async def _count(self) -> SpeculationCounters | None:
        """What all its servers have counted since this was last asked; None: nothing."""
        found = []
        for endpoint in self._servers:
            now = await self.read_counters(endpoint.base_url, api_key=self.api_key)
            found.append(speculation_between(self._counted.get(endpoint.server, {}), now))
            self._counted[endpoint.server] = now
        known = [counters for counters in found if counters]
        if not known:
            return None
        return SpeculationCounters(
            drafts=sum(c.drafts for c in known),
            draft_tokens=sum(c.draft_tokens for c in known),
            accepted_tokens=sum(c.accepted_tokens for c in known),
        )

    async def _wait(self) -> str:
        """Until a server answers, as long as a start may take; why none will, empty: one does."""
        try:
            if READY in [await self.readiness.health(endpoint) for endpoint in self._servers]:
                return ""
            allowed_seconds = (
                self.spec.start_allowance_seconds
                or self.spec.ready_deadline_seconds
                or COMES_BACK_WITHIN_SECONDS
            )
            left_seconds = max(0.0, self._ends_at_unix_s - self.clock())
            await self.readiness.wait(
                self._servers[:1],
                at_most_seconds=min(allowed_seconds, left_seconds),
                since_unix_s=self.kept.since_unix_s,
            )
        except (NotReadyError, GivenUpError) as error:
            return self._why_over() or f"its server is gone: {error}"
        return ""

    def _read_earlier(self) -> int:
        """Of earlier pods: as many looks as one pod knows; the last one's number.

        Raises:
            SinkError: which there are is not known.
        """
        folder = f"{LIVE_FOLDER}/{self.kept.run_id}"
        names = self.store.names(folder)
        try:
            earlier = [self.store.read(name) for name in names[-2 * LOOKS_NEEDED :]]
            self.probes = [load_record(LiveProbe, data) for data in earlier]
        except (SinkError, RecordError) as error:
            self.progress(f"earlier looks count for nothing: {one_line(str(error))}")
        numbers = (name.rpartition("/")[2].removesuffix(".json") for name in names)
        return max((int(number) for number in numbers if number.isdecimal()), default=0)
