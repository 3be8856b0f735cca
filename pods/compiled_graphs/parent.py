"""The parent of vLLM in its container: prepares its graphs, runs it, and says what becomes of it.

It stays, so that somebody can tell why a server does not come: each change goes into the results
bucket (`draftworth/records/server_state.py`), with the last lines of the log. A server that is not
worth another start is given up: then nothing runs here any more, and the container waits to be
ended. Its nodes are the capacity controller's to take away.

Given up are graphs that must not be served, a server that ended too often without ever having been
healthy, and one that takes longer than its start may take. One that was healthy and ends is started
again by the kubelet, as often as that happens: the measuring Job counts what it loses.

Graphs that no device has loaded before are tried with a limit of their own. A server that does not
get healthy with them, or does not answer, has its graphs rejected and compiles, in the same start;
one that was healthy in a new container, because the kubelet's startup probe succeeds once in each.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.mounted_graphs import RefusedGraphsError
from pods.compiled_graphs.answer import NoAnswerError, answered_tokens
from pods.compiled_graphs.graph_bucket import inventory
from pods.compiled_graphs.handover import forget, mark_proven, read_record, read_rejection
from pods.compiled_graphs.health import is_healthy
from pods.compiled_graphs.prepare import (
    Order,
    Prepared,
    compiles_after_all,
    prepare,
    reject,
    say,
)
from pods.compiled_graphs.reports import Reports
from pods.compiled_graphs.server_process import EXIT_NOT_FOUND, ServerProcess
from pods.compiled_graphs.starts import Starts, begin, healthy, keep

EXIT_NOT_PREPARED = 1


class GivenUpError(Exception):
    """The server is not worth another start."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long and how often a server may start.

    load_seconds, compile_seconds: from the pod's first start without health, where there are graphs
        and where there are none. unproven_seconds: of one try with graphs that are unproven, its
        answer included; it is part of the compile_seconds.
    answer_seconds: what an answer with unproven graphs may take.
    starts: without health; with_compiler_failure: where the compiler failed by itself.
    health_period_seconds: between two looks.
    grace_seconds: for vLLM to end when it is told to; then it is made to.
    """

    load_seconds: float
    compile_seconds: float
    unproven_seconds: float
    answer_seconds: float
    starts: int
    with_compiler_failure: int
    health_period_seconds: float
    grace_seconds: float

    def seconds(self, *, compiles: bool) -> float:
        """What a start may take."""
        return self.compile_seconds if compiles else self.load_seconds


@dataclass(kw_only=True)
class _Trial:
    """A try with unproven graphs.

    misses_end: the engine would have ended, had it not found every graph of its own in the cache.
    failure: why a healthy server has not proven them.
    """

    order: Order
    graphs: ArtifactManifest
    misses_end: bool
    failure: str = ""


class Parent:
    """One life of the container."""

    def __init__(
        self, *, command: Sequence[str], url: str, limits: Limits, scratch: Path, reports: Reports
    ) -> None:
        self._command = command
        self._url = url
        self._limits = limits
        self._scratch = scratch
        self._reports = reports
        self._server: ServerProcess | None = None
        self._told_to_end = False
        self._timed_out = False
        self._trial: _Trial | None = None
        self.starts = begin(scratch)
        self._had_trial = self.starts.goes_on

    def run(self, order: Order) -> int:
        """Prepare, serve, and the exit code that the container ends with.

        Raises:
            GivenUpError: it is not worth another start.
        """
        if self.starts.without_health > self._limits.starts:
            raise GivenUpError(self._too_often("without a word, as when it has no memory left"))
        try:
            prepared = self._prepare(order)
            if prepared.unproven:
                code = self._tried(order, prepared, prepared.unproven)
                if code is not None:
                    return self._ended(code)
                prepared = self._prepare(order, try_unproven=False)
        except RefusedGraphsError as refused:
            raise GivenUpError(f"REFUSED: {refused}") from refused
        except OSError as error:
            self._reports.say(f"graphs cannot be prepared: {error}")
            return self._ended(EXIT_NOT_PREPARED)
        return self._serve(order, prepared)

    def _prepare(self, order: Order, *, try_unproven: bool = True) -> Prepared:
        prepared = prepare(order, try_unproven=try_unproven)
        rejection = read_rejection(self._scratch) if prepared.graphs == "rejected" else None
        self._reports.of(prepared.graphs, rejection.reason if rejection else "")
        return prepared

    def forward(self, number: int) -> None:
        """Pass a signal on; without a server there is nothing to do but end."""
        if self._server is None or self._server.ended.is_set():
            sys.exit(128 + number)
        self._told_to_end |= number in (signal.SIGTERM, signal.SIGINT)
        if self._told_to_end and self._trial:
            forget(self._scratch)
        self._server.signal(number)

    def _tried(self, order: Order, prepared: Prepared, unproven: ArtifactManifest) -> int | None:
        """One try with unproven graphs; None: they are rejected, and the container goes on without.

        It counts as no start of its own: a wrong assumption must not take one away.
        """
        environment = {**os.environ, **prepared.environment, **prepared.proof}
        limit_seconds = min(self._limits.unproven_seconds, self._left_seconds(compiles=True))
        self._trial = _Trial(order=order, graphs=unproven, misses_end=bool(prepared.proof))
        code = self._attempt(environment, limit_seconds)
        trial, self._trial = self._trial, None
        if self._told_to_end or code == EXIT_NOT_FOUND:
            # Nothing is known of the graphs: neither now nor for the pod's next start.
            forget(self._scratch)
            return code
        if not self.starts.without_health:
            return code
        reason = trial.failure or f"the server ended with exit code {code} and was never healthy"
        if self._timed_out:
            reason = f"the server was not healthy within {limit_seconds / 60:g} minutes"
        reject(order, unproven.folder, reason, self._reports.tail.lines())
        forget(self._scratch)
        self._had_trial = True
        if not trial.failure:
            return None
        # It was healthy, so the startup probe is over, and the liveness probe would end an hour of
        # compiling without /health: the next container has a startup probe of its own.
        self._keep(replace(self.starts, trial_ended=self.starts.number))
        return code

    def _serve(self, order: Order, prepared: Prepared) -> int:
        environment = {**os.environ, **prepared.environment}
        if prepared.proof and not self.starts.cache_missed:
            code = self._limited({**environment, **prepared.proof}, compiles=False)
            if self._told_to_end or not self.starts.without_health:
                return self._ended(code)
            self._reports.say(
                f"the restored graphs were not hit (exit code {code}): the ordinary start follows "
                "and compiles; next: `python -m draftworth artifacts` shows what is stored"
            )
            self._keep(replace(self.starts, cache_missed=True))
            compiles_after_all(order)
        if self.starts.cache_missed:
            self._reports.of("compiled")
        compiles = prepared.compiles or self.starts.cache_missed
        return self._ended(self._limited(environment, compiles=compiles))

    def _limited(self, environment: Mapping[str, str], *, compiles: bool) -> int:
        """Run vLLM to its end, or to the end of its time; its exit code."""
        code = self._attempt(environment, self._left_seconds(compiles=compiles))
        if self._timed_out:
            raise GivenUpError(self._too_long(self._limit_seconds(compiles=compiles)))
        return code

    def _limit_seconds(self, *, compiles: bool) -> float:
        """A trial is part of what a start may take that compiles, also where others load then."""
        return self._limits.seconds(compiles=compiles or self._had_trial)

    def _left_seconds(self, *, compiles: bool) -> float:
        """Of what the pod's starts may take; raises GivenUpError where nothing is left."""
        limit_seconds = self._limit_seconds(compiles=compiles)
        left_seconds = limit_seconds - (time.monotonic() - self.starts.first_at_seconds)
        if left_seconds <= 0:
            raise GivenUpError(self._too_long(limit_seconds))
        return left_seconds

    def _attempt(self, environment: Mapping[str, str], left_seconds: float) -> int:
        """Run vLLM to its end; its exit code."""
        self._timed_out = False
        try:
            self._server = ServerProcess(self._command, environment, self._reports.tail)
        except OSError as error:
            self._reports.say(f"{self._command[0]} cannot be started: {error}")
            return EXIT_NOT_FOUND
        self._reports.report("starting", self.starts)
        watching = threading.Thread(
            target=self._watch, args=(self._server, left_seconds), daemon=True
        )
        watching.start()
        code = self._server.wait()
        watching.join()
        return code

    def _watch(self, server: ServerProcess, left_seconds: float) -> None:
        """Until it is healthy, has ended, or has had its time."""
        until = time.monotonic() + left_seconds
        while not server.ended.wait(self._limits.health_period_seconds):
            if is_healthy(self._url):
                if self._trial and not self._proves(self._trial, until - time.monotonic()):
                    server.end(grace_seconds=self._limits.grace_seconds)
                    return
                self._keep(healthy(self.starts))
                self._reports.report("healthy", self.starts)
                return
            if time.monotonic() >= until:
                self._timed_out = not self._told_to_end
                server.end(grace_seconds=self._limits.grace_seconds)
                return

    def _proves(self, trial: _Trial, left_seconds: float) -> bool:
        """Whether a healthy server answers with its unproven graphs.

        One that does not must not be measured, so it is not healthy yet. One that does with other
        graphs has compiled over them: then they are its own.
        """
        base_url = self._url.removesuffix("/health")
        timeout_seconds = max(1.0, min(left_seconds, self._limits.answer_seconds))
        try:
            tokens = answered_tokens(base_url, timeout_seconds=timeout_seconds)
        except NoAnswerError as error:
            trial.failure = f"the server was healthy and did not answer: {error}"
            return False
        record = read_record(self._scratch)
        if record is None:  # told to end meanwhile
            return True
        try:
            files = tuple(inventory(Path(record.graphs)))
        except OSError as error:
            trial.failure = f"the server answered, and its graphs cannot be read: {error}"
            return False
        # A cache may get more, as traces of its graphs; not where a miss would be compiled.
        more_is_well = trial.misses_end and {*trial.graphs.files} <= {*files}
        if files == trial.graphs.files or more_is_well:
            say(f"{trial.graphs.folder} is proven: {tokens} tokens on the devices")
            mark_proven(self._scratch, record, tokens)
            return True
        reason = "the engine compiled over them, so it could not load them"
        reject(trial.order, trial.graphs.folder, reason, self._reports.tail.lines())
        # It has compiled already.
        compiles_after_all(trial.order, since_unix_s=record.started_at_unix_s)
        self._reports.of("rejected", reason)
        return True

    def _ended(self, code: int) -> int:
        """The container ends, and is started again; raises GivenUpError where it should not be."""
        starts, failed = self.starts, self._reports.tail.compiler_failed
        allowed = self._limits.with_compiler_failure if failed else self._limits.starts
        goes_on = self._told_to_end or starts.trial_ended == starts.number
        if starts.without_health >= allowed and not goes_on:
            compiler = "; the compiler failed by itself (exit code 70)" if failed else ""
            raise GivenUpError(self._too_often(f"with exit code {code}{compiler}"))
        self._reports.report("ended", starts, exit_code=code)
        return code

    def give_up(self, reason: str) -> None:
        """Say so, here, in the bucket and to this pod's later containers."""
        self._keep(replace(self.starts, given_up=reason))
        self._reports.say(f"given up: {reason}")
        self._reports.report("given_up", self.starts, reason=reason)

    def _keep(self, starts: Starts) -> None:
        self.starts = starts
        keep(self._scratch, starts)

    def _too_often(self, last: str) -> str:
        ended = min(self.starts.without_health, self._limits.starts)
        return (
            f"its server ended {ended} times and was never healthy, the last time {last}; next: "
            "mend what its log names and deploy again with a raised `rerun`; where only the "
            "compiler failed, another node may do without a change"
        )

    def _too_long(self, limit_seconds: float) -> str:
        return (
            f"its server was not healthy {limit_seconds / 60:g} minutes after its first start; "
            "next: look in its log for what it was doing, and deploy again with a raised "
            "`rerun`"
        )
