"""The experiment file's workload: the requests that every variant gets, and how they are sent."""

from dataclasses import replace
from typing import Annotated, TypeVar, cast

from pydantic import Discriminator, Field, Tag

from draftworth.experiment import strict_model
from draftworth.records import load_shapes as load_shapes
from draftworth.records.codec import INT64
from draftworth.records.results import MAX_REQUESTS_PER_BLOCK, MAX_TEMPERATURE, StopWhen

One = TypeVar("One")
Each = TypeVar("Each")
# Tags of the two forms that a key such as `concurrency` may have: a value, or a list of them.
# pydantic puts the tags into the location of an error.
ONE, SEVERAL = "one value", "several values"
OneOrSeveral = Annotated[
    Annotated[One, Tag(ONE)]
    | Annotated[tuple[Each, ...], Field(min_length=1), strict_model.EachOnce, Tag(SEVERAL)],
    Discriminator(lambda value: SEVERAL if isinstance(value, tuple) else ONE),
]
# An input length in tokens. The minimum is enough for a chat template, which takes about a dozen
# tokens, and a question.
Length = Annotated[int, Field(ge=32)]


class PromptClass(strict_model.StrictModel):
    """A kind of traffic: a folder of cases."""

    name: Annotated[
        str, Field(pattern=strict_model.SET_NAME, max_length=strict_model.MAX_NAME_LENGTH)
    ]
    """folder below prompts_dir, e.g. structured"""
    cases: Annotated[tuple[str, ...], Field(min_length=1), strict_model.EachOnce] | None = None
    """names of files in the folder, without `.jsonl`; left out: all files"""
    weight: strict_model.PositiveFloat = 1.0
    """this class's part of your output tokens, relative to the others'; of each class or none"""


class ServiceLimits(strict_model.StrictModel):
    """Limits of your service; a variant that breaks one is not judged to be cheaper."""

    ttft_p95_ms: strict_model.PositiveFloat | None = None
    """time to first token that 95% of requests stay below"""
    itl_p95_ms: strict_model.PositiveFloat | None = None
    """inter-token latency that 95% of requests stay below"""
    e2e_p95_ms: strict_model.PositiveFloat | None = None
    """end-to-end latency that 95% of requests stay below; a request that timed out counts with the
    time that the client waited"""
    failures_percent: Annotated[float, Field(ge=0, le=100)] = 2.0
    """requests of 100 that may fail; if more fail, no verdict is given"""


class Workload(strict_model.StrictModel):
    """The requests that every variant gets."""

    prompts_dir: str = "../prompts"
    """folder of prompt classes, relative to the experiment file"""
    classes: Annotated[tuple[PromptClass, ...], Field(min_length=1)]
    """the prompt classes to measure"""
    input_tokens: OneOrSeveral[strict_model.PositiveInt, Length] = strict_model.WORKED_OUT
    """tokens of the longest prompt with its chat template, to check max_model_len; left out: half
    of its bytes as JSON, and 32. A list: every prompt is padded or cut to each of these lengths,
    which are measured one after the other"""
    output_tokens: strict_model.PositiveInt
    """max_tokens of every request; a prompt's own max_tokens may not be larger"""
    fixed_output_length: bool = False
    """true: every output has max_tokens, because the model cannot end it earlier"""
    temperature: Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)] = 0.0
    """0: greedy, so that outputs of variants can be compared; above 0: sampled, if the release's
    servers can sample with a draft too"""
    concurrency: OneOrSeveral[strict_model.PositiveInt, strict_model.PositiveInt] | None = None
    """requests in flight; a list: one number after the other; left out: 1, 2, 4 and so on, up to
    serving.max_num_seqs"""
    requests_per_second: (
        OneOrSeveral[strict_model.PositiveFloat, strict_model.PositiveFloat] | None
    ) = None
    """instead of concurrency: requests at random times at this mean rate (Poisson); a list: one
    rate after the other, to find the highest that keeps `limits`"""
    load_generator: load_shapes.LoadGenerator = "asyncio"
    """the sender of requests: `asyncio`, one process; `llmperf`, llmperf's library on Ray with a
    process for each request in flight"""
    requests_per_round: Annotated[int, Field(ge=1, le=MAX_REQUESTS_PER_BLOCK)] = 8
    """measured requests of each case and variant in one round"""
    min_requests: strict_model.PositiveInt = 16
    """least number of measured requests of each case and variant at each load"""
    max_requests: strict_model.PositiveInt = 64
    """most measured requests of each case and variant, at all loads and in all repetitions
    together; requests beyond min_requests go to the load with the widest interval"""
    target_interval_percent: Annotated[float, Field(gt=0, le=100)] = 10.0
    """rounds go on until the interval of every class's cost ratio is no wider than this many
    percent of the ratio"""
    stop: StopWhen = "precise"
    """`precise`: rounds go on until intervals are as narrow as target_interval_percent; `decided`:
    until the verdict is decided, for those who ask only yes or no; all intervals are wider then,
    because the run looks at them after each round"""
    limits: ServiceLimits = ServiceLimits()
    """limits that your service must keep; left out: only failures are limited"""
    warmup_requests: Annotated[int, Field(ge=0, le=1_000)] = 1
    """requests at the start of each block that are not measured; above concurrency 1 there are at
    least as many as are in flight, and at a rate at least 32"""
    parallel: bool = False
    """true: send to all variants at once, as llmperf examples do; false: one after the other"""
    seed: Annotated[int, Field(ge=INT64[0], le=INT64[-1])] = 0
    """source of each request's seed, which is the same for every variant; Poisson arrivals are
    drawn with this number + the round's number"""
    token_ids: bool = False
    """true: ask for the ids of output tokens, which are kept in the transcripts"""
    enable_thinking: bool = False
    """true: the chat template lets a reasoning model such as Qwen3 think"""
    request_timeout_seconds: Annotated[float, Field(ge=0.001, le=86_400)] = 300.0
    """a request that takes longer is recorded as failed"""

    @property
    def input_lengths(self) -> tuple[int, ...]:
        """Lengths in tokens to which prompts are padded or cut; empty if they are not changed."""
        return self.input_tokens if isinstance(self.input_tokens, tuple) else ()

    @property
    def most_input_tokens(self) -> int:
        return max(self.input_lengths) if self.input_lengths else cast(int, self.input_tokens)

    @property
    def concurrencies(self) -> tuple[int, ...]:
        """The file's numbers of requests in flight (`concurrency`); empty if it leaves them out."""
        return _each(self.concurrency or ())

    @property
    def target_interval_width(self) -> float:
        return self.target_interval_percent / 100

    def loads(self, max_num_seqs: int) -> tuple[load_shapes.Load, ...]:
        shapes: list[load_shapes.Load] = [
            load_shapes.PoissonLoad(requests_per_second=rate)
            for rate in _each(self.requests_per_second or ())
        ] or [
            load_shapes.ConcurrencyLoad(concurrency=n)
            for n in self.concurrencies or _doubled_up_to(max_num_seqs)
        ]
        lengths = self.input_lengths or (None,)
        return tuple(replace(shape, input_tokens=n) for n in lengths for shape in shapes)


def _each(values: One | tuple[One, ...]) -> tuple[One, ...]:
    return values if isinstance(values, tuple) else (values,)


def _doubled_up_to(highest: int) -> tuple[int, ...]:
    """Return 1, 2, 4 and so on, and last `highest`, which need not be a power of two."""
    return (*(2**n for n in range((highest - 1).bit_length())), highest)
