"""The gates of a run: servers must answer a prompt before requests are measured.

After the serving pods have tested their nodes (`pods/compiled_graphs`), and before blocks are
measured (`blocks`), one prompt is sent to the baseline's server, and then to the server of each
other variant (docs/operations.md, Gates).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from draftworth.errors import DraftworthError
from draftworth.measuring import streamed_request
from draftworth.measuring.http_client import API_KEY_VARIABLE, HttpError
from draftworth.measuring.journal import Journal
from draftworth.measuring.load_engines import Batch, Planned
from draftworth.measuring.model_list import served_models
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.server_lifecycle import Environment
from draftworth.measuring.streamed_request import Measured, max_tokens_of, request_seed
from draftworth.measuring.unmeasured_prompts import with_other_beginning
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import PassedGate, RequestRecord
from draftworth.untrusted import one_line

ANSWER_TOKENS = 8
TRIES = 3
BASELINE_ANSWERS, VARIANT_ANSWERS, LOAD = "baseline answers", "variant answers", "load"

# Error codes after which the prompt is sent again, because the cause may be over by then. A timeout
# is not among them, because it has already taken long.
_PASSING = (
    streamed_request.ERROR_CONNECT,
    streamed_request.ERROR_BROKEN_STREAM,
    streamed_request.ERROR_LOST_ACTOR,
    429,
)
_ALONE = ConcurrencyLoad(concurrency=1)
_MODELS_LISTED = 5


class BaselineGateError(DraftworthError):
    """The baseline's server cannot pass a gate, that is, it does not answer a first prompt.

    So no variant can be compared with it.
    """


def gate_error(why: str, *, is_baseline: bool) -> DraftworthError:
    """Return the error to raise if a variant's server does not answer a first prompt (a gate).

    It is a BaselineGateError for the baseline, else a DraftworthError. why: the error's message.
    """
    return BaselineGateError(why) if is_baseline else DraftworthError(why)


@dataclass(frozen=True, kw_only=True)
class AnswerGates:
    """Checks that each server answers a prompt of the run, and notes it in the run's journal."""

    spec: RunSpec
    environment: Environment
    journal: Journal
    run_id: str

    async def pass_all(
        self, endpoints: Sequence[Endpoint], *, wait: Callable[[], Awaitable[None]]
    ) -> None:
        """Send a prompt of the run to the baseline's server first, then to the other servers.

        wait: is awaited before the prompt is sent again; it ends when all servers are ready.
        DraftworthError: a server cannot answer. BaselineGateError: the baseline's server cannot.
        """
        for endpoint in sorted(endpoints, key=lambda e: not e.is_baseline):
            await self._pass(endpoint, wait)

    async def _pass(self, endpoint: Endpoint, wait: Callable[[], Awaitable[None]]) -> None:
        gate = BASELINE_ANSWERS if endpoint.is_baseline else VARIANT_ANSWERS
        started_at_unix_s = self.environment.wall_clock()
        for tries_left in range(TRIES - 1, -1, -1):
            answer = await self._answer(endpoint)
            record = answer.record
            # With tools, an answer may have tokens without text: the server's parser of tool calls
            # holds the text back until it has a call's whole name.
            held_back = self.spec.cases[0].prompts[-1].tools and record.number_output_tokens
            if not record.failed and (answer.transcript.text or held_back):
                passed = PassedGate(
                    gate=gate,
                    variant=endpoint.variant,
                    at_unix_s=self.environment.wall_clock(),
                    seconds=record.took_s,
                    tokens=record.number_output_tokens,
                )
                self.journal.note("waited", started_at_unix_s, gates=(passed,))
                self.environment.progress(f"{endpoint.variant} answers: {record.took_s:.2f} s")
                return
            words = _words(record)
            code = record.error_code or 0
            if not tries_left or not (code in _PASSING or code >= 500):
                break
            self.environment.progress(f"{gate}: {endpoint.variant}: {words}; again")
            await asyncio.sleep(self.environment.ready_poll_seconds)
            await wait()
        why = await self._why(gate, endpoint, words)
        raise gate_error(why, is_baseline=endpoint.is_baseline)

    async def _answer(self, endpoint: Endpoint) -> Measured:
        shape, (first, *_) = self.spec.shape, self.spec.cases
        prompt, place = first.prompts[-1], len(first.prompts) - 1
        if self.spec.keeps_prompts_new:
            prompt = with_other_beginning(prompt, key="gate")
        tokens = min(ANSWER_TOKENS, max_tokens_of(shape, prompt))
        request = Planned(
            request_id=f"{self.run_id}/{endpoint.variant}-gate",
            prompt=replace(prompt, max_tokens=tokens),
            seed=request_seed(shape, place),
        )
        sender = self.environment.make_client(
            base_url=endpoint.base_url, shape=shape, api_key=self.environment.api_key
        )
        batch = Batch(measured=[request])
        sent = await self.environment.engine.send(sender, batch, _ALONE, seed=shape.seed)
        return sent.measured[0]

    async def _why(self, gate: str, endpoint: Endpoint, answer: str) -> str:
        first, model = self.spec.cases[0], self.spec.shape.model
        try:
            served = await served_models(endpoint.base_url, self.environment.api_key)
        except HttpError:
            served = ()
        some = one_line(", ".join(served[:_MODELS_LISTED]))
        listing = f"; {endpoint.base_url}/v1/models lists: {some}" if served else ""
        following = "read the server's log (`draftworth logs` on AWS)"
        if answer.startswith(("401", "403")):
            following = f"set the environment variable {API_KEY_VARIABLE} to its key"
        elif served and model not in served:
            following = "ask for a model that is listed"
        elif answer.startswith("404"):
            following = "check the address, and the name of the model there"
        return (
            f"gate `{gate}`: {endpoint.variant} at {endpoint.base_url}, answer: {answer}; asked "
            f"for: up to {ANSWER_TOKENS} tokens of {one_line(model)} to a prompt of "
            f"{first.prompt_class}/{first.name}{listing}; next: {following}"
        )


def _words(record: RequestRecord) -> str:
    if not record.failed:
        return "an empty text"
    # Codes below 0 are this program's own, and mean nothing to a user.
    is_status = (record.error_code or 0) > 0
    return f"{record.error_code}: {record.error_msg}" if is_status else record.error_msg
