"""The run specification: all input of the measuring Job, as one JSON document.

The command line makes the document from an experiment, and the Job's pod reads it, so this module
needs only the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from draftworth.errors import UserInputError
from draftworth.records.codec import Checked
from draftworth.records.load_shapes import Load, LoadGenerator
from draftworth.records.prompt_files import MAX_PROMPT_BYTES, Case
from draftworth.records.results import (
    Limits,
    Positive,
    Price,
    PromptCache,
    StopWhen,
    Temperature,
)
from draftworth.records.search_result import Search
from draftworth.records.servers import ServingFacts
from draftworth.untrusted import MIB

RUN_SPEC_SCHEMA = "draftworth.runspec/10"
# The most bytes of a run specification: of all its prompts and of everything else.
LIMIT_BYTES = MAX_PROMPT_BYTES + MIB


@dataclass(frozen=True, kw_only=True)
class Endpoint(Checked):
    """A variant's OpenAI-compatible server in one slot (the devices that it claims).

    base_url: without the trailing `/v1`.
    max_tokens_per_step: the most tokens that a decoding step can yield, 1 without speculation;
        None: the server's settings are not known.
    slot: the slot's number; None: it is not known.
    lookup_lengths: how many of the last tokens n-gram drafting looks up, the fewest and the most;
        None: the variant does not draft so, or it is not known.
    server: the name by which the server is started and stopped (`server_lifecycle.Servers`); empty
        if it already runs and is never started or stopped.
    """

    variant: str
    base_url: str
    max_tokens_per_step: Positive | None
    is_baseline: bool
    slot: int | None = None
    server: str = ""
    lookup_lengths: tuple[Positive, Positive] | None = None


@dataclass(frozen=True, kw_only=True)
class RequestShape(Checked):
    """The settings that all requests share.

    output_tokens: the most tokens of an output; a prompt's own `max_tokens` is not larger.
    fixed_output_length: whether every output has exactly `max_tokens` tokens, because the model
        cannot end it earlier.
    seed: the source of random arrival times and of the requests' seeds (`request_seed`).
    timeout_seconds: the longest time of a request, from opening its connection to its end.
    token_ids: whether requests ask the server for the ids of output tokens.
    prompt_cache: what a server's prefix cache may have of the measured prompts.
    """

    model: str
    output_tokens: int
    fixed_output_length: bool
    temperature: Temperature
    seed: int
    enable_thinking: bool
    timeout_seconds: float
    token_ids: bool = False
    prompt_cache: PromptCache = "cold"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The number of requests, which depends on how narrow the intervals have to be.

    The first three counts are of measured requests of one case and variant. A round adds
    `requests_per_round` at one load. Rounds continue until every class has `min_requests` at every
    load and, if `stop` is `precise`, an interval no wider than `target_interval_width` (relative to
    the cost ratio) or, if it is `decided`, an interval that decides; or until the class has
    `max_requests` at all loads and in all repetitions together. Each block begins with at least
    `warmup_requests` requests that are not measured; a load may need more (`warmup_shares`).
    """

    requests_per_round: int
    min_requests: int
    max_requests: int
    target_interval_width: float
    warmup_requests: int
    stop: StopWhen = "precise"


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A run: it measures every case against every variant, at every load, in every repetition.

    endpoints: one for each variant and slot; the repetitions use a variant's endpoints in turn.
    parallel: whether a case's requests go to all variants at the same time, not to one variant
        after another.
    class_weights: each prompt class's share of the output tokens.
    control: whether the baseline is also measured against itself in its other slot.
    search: the candidates that are measured one by one beside the baseline; None: every variant is
        measured.
    serving: the software that serves the endpoints; None if it is not known.
    ready_deadline_seconds: the longest wait for servers; None: a new stage waits at most
        `start_allowance_seconds`, and every other wait may last until the run's deadline.
    start_allowance_seconds: the longest wait for the servers of a new stage; for the first stage it
        counts from the run's start. None: the wait may last until the run's deadline.
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
    repetitions: int = 1
    control: bool = False
    search: Search | None = None
    serving: ServingFacts | None = None

    def __post_init__(self) -> None:
        self._check_servers()
        if not self.loads:
            raise ValueError("loads: given none, allowed: one or more")
        most = self.shape.output_tokens
        for case in self.cases:
            if any((prompt.max_tokens or 0) > most for prompt in case.prompts):
                raise ValueError(
                    f"cases: {case.prompt_class:.64}/{case.name:.64}: a prompt's max_tokens, "
                    f"allowed: at most the {most} of shape.output_tokens"
                )

    def _check_servers(self) -> None:
        if self.repetitions < 1:
            raise ValueError(f"repetitions: given {self.repetitions}, allowed: 1 or more")
        if self.changes_servers and not all(endpoint.server for endpoint in self.endpoints):
            raise ValueError(
                f"repetitions: given {self.repetitions}, control: given {self.control}, allowed: 1 "
                "and false, and no search, where an endpoint has no `server` that can be started "
                "and stopped"
            )
        names = {e.variant for e in self.endpoints if not e.is_baseline}
        if self.search and names != {c.variant for c in self.search.candidates}:
            raise ValueError("search: allowed: every variant but the baseline as a candidate")
        if self.control and len(self._servers_of(self.baseline)) < 2:
            raise ValueError("control: given True, allowed: with two endpoints of the baseline")

    def _servers_of(self, variant: str) -> tuple[Endpoint, ...]:
        return tuple(e for e in self.endpoints if e.variant == variant)

    @property
    def keeps_prompts_new(self) -> bool:
        """Whether requests that are not measured must not put measured prompts into a cache.

        The servers of an experiment are started without a prefix cache, and some refuse a prompt
        that is longer than the longest measured one. A prompt that was made to a length keeps it.
        """
        are_of_experiment = self.serving is not None or any(e.server for e in self.endpoints)
        have_length = any(load.input_tokens is not None for load in self.loads)
        is_warm = self.shape.prompt_cache == "warm"
        return not (are_of_experiment or have_length or is_warm)

    @property
    def changes_servers(self) -> bool:
        return self.repetitions > 1 or self.control or self.search is not None

    def beside_baseline(self, variant: str) -> RunSpec:
        """Return the specification with the baseline and one other variant, without a search."""
        pair = tuple(e for e in self.endpoints if e.is_baseline or e.variant == variant)
        return replace(self, endpoints=pair, search=None)

    @property
    def variants(self) -> tuple[Endpoint, ...]:
        return tuple(
            self._servers_of(name)[0] for name in dict.fromkeys(e.variant for e in self.endpoints)
        )

    def in_repetition(self, repetition: int) -> tuple[Endpoint, ...]:
        """Return, for each variant, the endpoint that gets the requests of one repetition.

        A variant may have several endpoints, which the repetitions use in turn.
        repetition: its number, from 1.
        """
        by_variant = [self._servers_of(endpoint.variant) for endpoint in self.variants]
        return tuple(servers[(repetition - 1) % len(servers)] for servers in by_variant)

    @property
    def baseline(self) -> str:
        return next(e.variant for e in self.endpoints if e.is_baseline)


# The labels that Kubernetes' Job controller puts on pods.
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
JOB_UID_LABEL = "batch.kubernetes.io/controller-uid"
# The environment variables with the values of these labels.
JOB_NAME_VARIABLE = "DRAFTWORTH_JOB_NAME"
JOB_UID_VARIABLE = "DRAFTWORTH_JOB_UID"
_UID_CHARACTERS = 8

# A pod is ended after this time, in case that it hangs; then another pod continues the run.
POD_DEADLINE_SECONDS = 24 * 3600

# After this many pods that ended without recording a reason, the next pod only records that the run
# has failed. It does not measure, because measuring may have ended the earlier pods.
MAX_UNRECORDED_ENDS = 3
# How often the Job replaces a failed pod: `MAX_UNRECORDED_ENDS` times, once to record the failure,
# and some times more, in case S3 cannot be reached. The delays between the pods are Kubernetes' own
# (10 s, 20 s, ... 6 minutes) and add up to half an hour.
POD_RETRIES = 10

EXIT_COMPLETE = 0
EXIT_FAILED = 1
"""The run has ended and failed; its `run.json` says why."""
EXIT_WRONG_INPUT = UserInputError.exit_code
EXIT_NOT_RECORDED = 3
"""The specification or the results cannot be read or written: another pod may succeed."""
EXIT_INTERRUPTED = 75
"""The pod was terminated early; another pod continues the run. EX_TEMPFAIL of sysexits.h."""


def job_run_id(environment: Mapping[str, str]) -> str | None:
    """Return the run's id, which is the same for each pod of a Job; None outside of a Job.

    It is `<job name>-<first characters of the Job's uid>`: a Job that is deleted and created again
    with the same name has another uid, so it is another run.
    """
    name, uid = environment.get(JOB_NAME_VARIABLE), environment.get(JOB_UID_VARIABLE)
    return f"{name}-{uid[:_UID_CHARACTERS]}" if name and uid else None
