"""The run specification: all that the load generator has to know, as one JSON document.

Made from an experiment on the side that has it, read in the pod: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from draftworth.records.load import Load, LoadGenerator
from draftworth.records.prompts import Case
from draftworth.records.results import Limits, Price, check_temperature

RUN_SPEC_SCHEMA = "draftworth.runspec/6"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One variant's OpenAI-compatible server.

    base_url: without the trailing `/v1`. max_tokens_per_step: None for a server that nobody knows.
    """

    variant: str
    base_url: str
    max_tokens_per_step: int | None
    is_baseline: bool


@dataclass(frozen=True, kw_only=True)
class RequestShape:
    """What every request has in common.

    output_tokens: most tokens of an output; a prompt's own `max_tokens` is no more.
    fixed_output_length: every output has as many, whether the model has ended it or not.
    seed: of random arrivals, and of the seed that each request has of its own (`request_seed`).
    token_ids: the ids of output tokens are asked for.
    """

    model: str
    output_tokens: int
    fixed_output_length: bool
    temperature: float
    seed: int
    enable_thinking: bool
    timeout_seconds: float
    token_ids: bool = False

    def __post_init__(self) -> None:
        check_temperature(self.temperature)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How many requests: a consequence of how narrow the speedup's interval has to be.

    All counts are of measured requests of one case, variant and load. A round adds
    `requests_per_round` to each; rounds continue until every class has `min_requests` and an
    interval no wider than `target_interval_width` (relative to the speedup), or `max_requests`.
    """

    requests_per_round: int
    min_requests: int
    max_requests: int
    target_interval_width: float
    warmup_requests: int


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What to measure: every case against every endpoint, in every load.

    ready_deadline_seconds: how long servers are waited for; None: as the run's deadline says.
    start_allowance_seconds: how long servers that have never answered are waited for, from the
        run's start; None: as long as any.
    """

    schema: str = RUN_SPEC_SCHEMA
    experiment: str
    endpoints: tuple[Endpoint, ...]
    shape: RequestShape
    cases: tuple[Case, ...]
    loads: tuple[Load, ...]
    load_generator: LoadGenerator
    sampling: Sampling
    parallel: bool
    class_weights: Mapping[str, float]
    limits: Limits = field(default_factory=Limits)
    price: Price | None
    ready_deadline_seconds: float | None
    start_allowance_seconds: float | None = None

    def __post_init__(self) -> None:
        most = self.shape.output_tokens
        for case in self.cases:
            if any((prompt.max_tokens or 0) > most for prompt in case.prompts):
                raise ValueError(
                    f"cases: {case.prompt_class:.64}/{case.name:.64}: a prompt's max_tokens, "
                    f"allowed: at most the {most} of shape.output_tokens"
                )

    @property
    def baseline(self) -> str:
        """The name of the variant without speculation."""
        return next(e.variant for e in self.endpoints if e.is_baseline)
