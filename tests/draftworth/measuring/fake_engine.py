"""Runs pods of a run without servers: an engine makes the figures of requests from a hash."""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.measuring.journal import History, read_history
from draftworth.measuring.load_engines import Batch, Planned, SentBatch
from draftworth.measuring.result_files import FolderSink
from draftworth.measuring.run_specification import Endpoint
from draftworth.measuring.runner import Runner
from draftworth.measuring.streamed_request import Client, Measured
from draftworth.records import results
from draftworth.records.load_shapes import Load
from draftworth.records.transcripts import Transcript
from tests.support.blocks import make_record

RUN_ID = "llmperf-x-00000000-01234567"
# How much the cost varies from prompt to prompt, by class: the first class has a narrow interval
# after few rounds, the second does not.
SPREAD = {"structured": 0.01, "open_ended": 0.9}


class KilledError(BaseException):
    """Ends a pod as SIGKILL would: no code of the run handles this exception."""


def terminate() -> None:
    raise asyncio.CancelledError


class FakeEngine:
    """Answers requests with figures from a hash; before block number `at`, `happen` is called."""

    def __init__(self, happen: Callable[[], object] | None = None, *, at: int = 0) -> None:
        self.calls = 0
        self._happen = happen
        self._at = at

    async def send(self, client: Client, batch: Batch, load: Load, *, seed: int) -> SentBatch:
        is_gate = batch.measured[0].request_id.endswith("-gate")
        self.calls += not is_gate
        if self._happen and self.calls == self._at and not is_gate:
            happening = self._happen()
            if asyncio.iscoroutine(happening):
                await happening
        await asyncio.sleep(0)
        answers = [self.answer(client, request, load) for request in batch.measured]
        return SentBatch(measured=answers, unmeasured=(), fillers=0)

    def answer(self, client: Client, request: Planned, load: Load) -> Measured:
        prompt_class = request.prompt.messages[0]["content"]
        drafted = "k7" in client.base_url
        identity = f"{request.prompt.id} {drafted} {load.label}".encode()
        draw = hashlib.sha256(identity).digest()[0] / 255 - 0.5
        itl_s = (0.005 if drafted else 0.010) * (1 + SPREAD[prompt_class] * draw)
        record = make_record(
            request_id=request.request_id,
            prompt_id=request.prompt.id,
            inter_token_latency_s=itl_s,
            end_to_end_latency_s=0.25 + 100 * itl_s,
        )
        return Measured(
            record=record, transcript=Transcript(request_id=record.request_id, text="x")
        )


def history(folder: Path) -> History:
    return read_history(FolderSink(folder), RUN_ID)


def run_pod(made: Runner) -> results.RunResult | None:
    """Run one pod to its end, and return its result; None if it was killed or terminated."""
    try:
        return asyncio.run(made.run())
    except (KilledError, asyncio.CancelledError):
        return None


class RecordingServers:
    """Notes which servers are to run; the calls whose numbers (from 1) are in `failing` fail."""

    def __init__(self, *, failing: Collection[int] = ()) -> None:
        self.calls: list[tuple[tuple[str, ...], bool]] = []
        self._failing = failing

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        self.calls.append((tuple(e.server for e in endpoints), restart))
        if len(self.calls) in self._failing:
            raise DraftworthError("the API server answers HTTP 403")
