"""The parent process of vLLM in a container tests the node, prepares graphs and runs vLLM.

Each new state is put into the results bucket (`draftworth/records/servers.py`), with the last lines
of the log. A server is given up if its pod's self-test failed, if its graphs are refused, if it
ended too often without being healthy, or if a start takes too long: the container then waits
without a server until the capacity controller ends its node. If a server ends after it was healthy,
the kubelet starts it again, without a limit; the measuring Job counts the failed requests.
"""

import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.records.graph_manifests import RefusedGraphsError
from draftworth.records.servers import SelfTest
from pods.compiled_graphs.prepare_graphs import Order, Prepared, prepare, record_compiling_start
from pods.compiled_graphs.scratch_records import Starts, begin, keep
from pods.compiled_graphs.server_process import ServerProcess, is_healthy
from pods.compiled_graphs.server_reports import Reports

# The server is given up if it was not healthy in this many starts.
MAX_STARTS = 3
EXIT_NOT_PREPARED = 1
EXIT_NOT_FOUND = 127


class GivenUpError(Exception):
    """The server has failed for good and is not started again."""


@dataclass(kw_only=True)
class Parent:
    """Runs and watches vLLM.

    If vLLM ends because it does not find the graphs from the bucket, it is run once more and
    compiles its graphs.

    It raises GivenUpError if another start would not help.
    command: vLLM's command line. arguments: the parsed command line of `start`; its limits in
        minutes count from `Starts.first_at_seconds`.
    self_test: a function that tests what the server needs; it is called once in a pod's life.
    reports: writes log lines, and states into the results bucket.
    """

    command: Sequence[str]
    arguments: Namespace
    self_test: Callable[[], SelfTest]
    reports: Reports
    _server: ServerProcess | None = None
    _got_end_signal: bool = False
    _timed_out: bool = False

    def __post_init__(self) -> None:
        self.starts = begin(self.arguments.scratch)

    def run(self, order: Order) -> int:
        if self.starts.without_health > MAX_STARTS:
            raise GivenUpError(self._too_often("without a word, as when it has no memory left"))
        if self.starts.self_test is None:
            self._test()
        try:
            prepared = prepare(order)
        except RefusedGraphsError as refused:
            raise GivenUpError(f"REFUSED: {refused}") from refused
        except OSError as error:
            self.reports.say(f"graphs cannot be prepared: {error}")
            return self._ended(EXIT_NOT_PREPARED)
        return self._serve(order, prepared)

    def forward(self, number: int) -> None:
        """Send the signal `number` to the server; end this process if no server runs."""
        if self._server is None or self._server.ended.is_set():
            sys.exit(128 + number)
        self._got_end_signal |= number in (signal.SIGTERM, signal.SIGINT)
        self._server.signal(number)

    def _test(self) -> None:
        self.reports.report("testing", self.starts)
        test = self.self_test()
        # The time limit of the server's start begins after the self-test.
        self._keep(replace(self.starts, self_test=test, first_at_seconds=time.monotonic()))
        if test.failed:
            raise GivenUpError(f"self-test: {test.failed}")
        # Report the test's result now: copying stored graphs, which follows, may take minutes.
        self.reports.report("testing", self.starts)

    def _serve(self, order: Order, prepared: Prepared) -> int:
        environment = {**os.environ, **prepared.environment}
        if prepared.proof and not self.starts.cache_missed:
            code = self._attempt({**environment, **prepared.proof}, compiles=False)
            # A failure of a driver, a mount, memory or EFA does not mean that the graphs are wrong,
            # so other graphs are compiled only after an error that names the graphs.
            never_healthy = self.starts.without_health and not self._got_end_signal
            if not (never_healthy and self.reports.tail.graph_missed):
                return self._ended(code)
            self.reports.say(
                f"the restored graphs were not hit (exit code {code}): the ordinary start follows "
                "and compiles; next: `draftworth artifacts` shows what is stored"
            )
            self._keep(replace(self.starts, cache_missed=True))
            record_compiling_start(order)
        compiles = prepared.compiles or self.starts.cache_missed
        return self._ended(self._attempt(environment, compiles=compiles))

    def _attempt(self, environment: Mapping[str, str], *, compiles: bool) -> int:
        limits = self.arguments
        limit_minutes: float = limits.compile_minutes if compiles else limits.load_minutes
        left_seconds = 60 * limit_minutes - (time.monotonic() - self.starts.first_at_seconds)
        self._timed_out = False
        if left_seconds <= 0:
            raise GivenUpError(self._too_long(limit_minutes))
        try:
            self._server = ServerProcess(self.command, environment, self.reports.tail)
        except OSError as error:
            self.reports.say(f"{self.command[0]} cannot be started: {error}")
            return EXIT_NOT_FOUND
        self.reports.report("starting", self.starts)
        watched = (self._server, left_seconds)
        watching = threading.Thread(target=self._watch, args=watched, daemon=True)
        watching.start()
        code = self._server.wait()
        watching.join()
        if self._timed_out:
            raise GivenUpError(self._too_long(limit_minutes))
        return code

    def _watch(self, server: ServerProcess, left_seconds: float) -> None:
        until = time.monotonic() + left_seconds
        while not server.ended.wait(self.arguments.health_period_seconds):
            if is_healthy(self.arguments.health_url):
                self._keep(replace(self.starts, without_health=0))
                self.reports.report("healthy", self.starts)
                return
            if time.monotonic() >= until:
                self._timed_out = not self._got_end_signal
                server.end()
                return

    def _ended(self, code: int) -> int:
        """Report that the server ended, and return `code`, its exit code.

        This process then ends with that exit code, and the kubelet starts the container again.
        It raises GivenUpError if the server ended too often without being healthy.
        """
        starts, failed = self.starts, self.reports.tail.compiler_failed
        allowed = self.arguments.starts_with_compiler_failure if failed else MAX_STARTS
        if starts.without_health >= allowed and not self._got_end_signal:
            compiler = "; the compiler failed by itself (exit code 70)" if failed else ""
            raise GivenUpError(self._too_often(f"with exit code {code}{compiler}"))
        self.reports.report("ended", starts, exit_code=code)
        return code

    def give_up(self, reason: str) -> None:
        self._keep(replace(self.starts, given_up=reason))
        self.reports.say(f"given up: {reason}")
        self.reports.report("given_up", self.starts, reason=reason)

    def _keep(self, starts: Starts) -> None:
        self.starts = starts
        keep(self.arguments.scratch, starts)

    def _too_often(self, last: str) -> str:
        ended = min(self.starts.without_health, MAX_STARTS)
        return (
            f"its server ended {ended} times and was never healthy, the last time {last}; next: "
            "mend what its log names and deploy again with a raised `rerun`; where only the "
            "compiler failed, another node may do without a change"
        )

    def _too_long(self, limit_minutes: float) -> str:
        return (
            f"its server was not healthy {limit_minutes:g} minutes after its first start; "
            "next: look in its log for what it was doing, and deploy again with a raised "
            "`rerun`"
        )
