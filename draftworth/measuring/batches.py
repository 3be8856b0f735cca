"""Chooses the prompts and seeds of a block's requests: warm-up, measured ones and fillers."""

import itertools
import math
from dataclasses import dataclass, replace

from draftworth.measuring.load_engines import Batch, Planned
from draftworth.measuring.run_specification import RequestShape, RunSpec
from draftworth.measuring.schedule import Round
from draftworth.measuring.streamed_request import max_tokens_of, request_seed
from draftworth.measuring.unmeasured_prompts import with_other_beginning
from draftworth.records.prompt_files import Case, Prompt


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The requests of one block: of a case, in a round.

    request_prefix: the beginning of the ids of its requests.
    """

    spec: RunSpec
    case: Case
    turn: Round
    request_prefix: str

    def batch(self) -> Batch:
        # The warm-up uses the prompts before the measured ones, and the fillers those after them.
        sampling, turn = self.spec.sampling, self.turn
        measured = sampling.requests_per_round
        first = (turn.number - 1) * measured
        shares = turn.load.warmup_shares(sampling.warmup_requests)
        before = first - len(shares)
        after = first + measured
        return Batch(
            warmup=[
                self._unmeasured(f"warmup-{i:05d}", before + i, share)
                for i, share in enumerate(shares)
            ],
            measured=[
                self._planned(f"{i:05d}", first + i, self._prompt(first + i))
                for i in range(measured)
            ],
            fillers=(self._unmeasured(f"filler-{i:05d}", after + i) for i in itertools.count()),
        )

    def _prompt(self, place: int) -> Prompt:
        return self.case.prompts[place % len(self.case.prompts)]

    def _planned(self, name: str, place: int, prompt: Prompt) -> Planned:
        return Planned(
            request_id=f"{self.request_prefix}-{name}",
            prompt=prompt,
            seed=request_seed(self.spec.shape, place),
        )

    def _unmeasured(self, name: str, place: int, share: float = 1.0) -> Planned:
        prompt = self._prompt(place)
        if self.spec.keeps_prompts_new:
            key = f"{self.turn.load.label}/{self.turn.number}/{name}"
            prompt = with_other_beginning(prompt, key=key)
        if share < 1.0:
            prompt = _shortened(self.spec.shape, prompt, share)
        return self._planned(name, place, prompt)


def _shortened(shape: RequestShape, prompt: Prompt, share: float) -> Prompt:
    """Return a prompt with `share` (0 to 1) of its output limit, but at least 2 tokens.

    An output of 1 token has no inter-token latency.
    """
    tokens = max_tokens_of(shape, prompt)
    return replace(prompt, max_tokens=min(tokens, max(2, math.ceil(tokens * share))))
