"""Whether servers are ready, and waiting until they are."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draftworth.errors import DraftworthError
from draftworth.measuring.answers import refusal
from draftworth.measuring.clock import WallClock
from draftworth.measuring.http import API_KEY_VARIABLE, HttpError, get_text
from draftworth.measuring.run_specification import Endpoint

READY = "ready"
_TIMEOUT_SECONDS = 5.0
_LIMIT_BYTES = 64 * 1024


class NotReadyError(DraftworthError):
    """A server was not ready by the deadline."""


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Asks servers for their health."""

    api_key: str | None
    progress: Callable[[str], None]
    clock: WallClock
    poll_seconds: float

    async def wait(self, endpoints: Sequence[Endpoint], *, at_most_seconds: float | None) -> None:
        """Wait for `/health` of every server; raises NotReadyError. None: without an end."""
        wait_seconds = math.inf if at_most_seconds is None else at_most_seconds
        give_up_at_seconds = self.clock() + wait_seconds
        for endpoint in endpoints:
            self.progress(f"waiting for {endpoint.variant} at {endpoint.base_url}")
            while (answer := await self.health(endpoint)) != READY:
                if self.clock() >= give_up_at_seconds:
                    raise NotReadyError(
                        f"{endpoint.variant} at {endpoint.base_url} was not ready within "
                        f"{wait_seconds:g} s; last answer: {answer}"
                    )
                await asyncio.sleep(self.poll_seconds)

    async def health(self, endpoint: Endpoint) -> str:
        """`READY`, or the answer of a server that is not; raises NotReadyError without a key."""
        try:
            answer = await get_text(
                f"{endpoint.base_url}/health",
                timeout_seconds=_TIMEOUT_SECONDS,
                limit_bytes=_LIMIT_BYTES,
                api_key=self.api_key,
            )
        except HttpError as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {_TIMEOUT_SECONDS:g} s"
        status = answer.head.status
        if status in (401, 403):
            raise NotReadyError(
                f"{endpoint.variant} at {endpoint.base_url} answers HTTP {status}: set the "
                f"environment variable {API_KEY_VARIABLE} to its key"
            )
        # Servers without a health endpoint answer 404: they answer.
        return READY if status in (200, 404) else refusal(answer.head)
