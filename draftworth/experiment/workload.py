"""The experiment file's workload: the requests that every variant gets, and how they are sent."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Discriminator, Field, Tag

from draftworth.errors import Key
from draftworth.experiment import strict
from draftworth.records import load as load_shapes
from draftworth.records.codec import INT64
from draftworth.records.results import MAX_REQUESTS_PER_BLOCK, MAX_TEMPERATURE

# Tags of the two forms of `input_tokens`; pydantic puts them into the location of an error.
ONE_LENGTH, SEVERAL_LENGTHS = "one length", "several lengths"
# The least length has room for a chat template, about a dozen tokens, and for a question.
Length = Annotated[int, Field(ge=32)]
InputTokens = Annotated[
    Annotated[strict.PositiveInt, Tag(ONE_LENGTH)]
    | Annotated[tuple[Length, ...], Field(min_length=1), strict.EachOnce, Tag(SEVERAL_LENGTHS)],
    Discriminator(lambda value: SEVERAL_LENGTHS if isinstance(value, tuple) else ONE_LENGTH),
]


class PromptClass(strict.StrictModel):
    """A kind of traffic: a folder of cases."""

    name: Annotated[str, Field(pattern=strict.SET_NAME_PATTERN, max_length=strict.MAX_NAME_LENGTH)]
    """folder below prompts_dir, e.g. structured"""
    cases: Annotated[tuple[str, ...], Field(min_length=1), strict.EachOnce] | None = None
    """file stems in the folder; all of them when left out"""
    weight: strict.PositiveFloat = 1.0
    """this class's part of your output tokens, relative to the others'"""


class _Load(strict.StrictModel):
    key: ClassVar[str]

    def key_of(self, rung: int) -> Key:
        """Return the key of load number `rung`: `concurrency`, or `concurrencies` and the index."""
        if isinstance(getattr(self, self.key), tuple):
            return (self.key, rung)
        return (self.key,)


class ConcurrencyLoad(_Load):
    """A fixed number of requests in flight."""

    key = "concurrency"
    kind: Literal["concurrency"]
    concurrency: strict.PositiveInt = Field(description="requests in flight")

    def shapes(self) -> tuple[load_shapes.Load, ...]:
        return (load_shapes.ConcurrencyLoad(concurrency=self.concurrency),)


class PoissonLoad(_Load):
    """Requests at random times, whatever is still in flight."""

    key = "requests_per_second"
    kind: Literal["poisson"]
    requests_per_second: strict.PositiveFloat = Field(description="mean rate")

    def shapes(self) -> tuple[load_shapes.Load, ...]:
        return (load_shapes.PoissonLoad(requests_per_second=self.requests_per_second),)


class LadderLoad(_Load):
    """One concurrency after the other."""

    key = "concurrencies"
    kind: Literal["ladder"]
    concurrencies: Annotated[tuple[strict.PositiveInt, ...], Field(min_length=1), strict.EachOnce]
    """requests in flight on each rung"""

    def shapes(self) -> tuple[load_shapes.Load, ...]:
        return tuple(load_shapes.ConcurrencyLoad(concurrency=n) for n in self.concurrencies)


class RatesLoad(_Load):
    """One Poisson rate after the other: the answer is the highest that keeps `limits`."""

    key = "rates"
    kind: Literal["poisson_ladder"]
    rates: Annotated[tuple[strict.PositiveFloat, ...], Field(min_length=1), strict.EachOnce]
    """mean requests a second on each rung"""

    def shapes(self) -> tuple[load_shapes.Load, ...]:
        return tuple(load_shapes.PoissonLoad(requests_per_second=rate) for rate in self.rates)


def ladder(highest: int) -> LadderLoad:
    """Return the ladder 1, 2, 4, ... that ends with `highest`, which need not be a power of two."""
    doubled = (2**n for n in range((highest - 1).bit_length()))
    return LadderLoad(kind="ladder", concurrencies=(*doubled, highest))


LoadSpec = Annotated[
    ConcurrencyLoad | PoissonLoad | LadderLoad | RatesLoad, Field(discriminator="kind")
]


class ServiceLimits(strict.StrictModel):
    """Limits of your service: a verdict holds only inside them."""

    ttft_p95_ms: strict.PositiveFloat | None = None
    """time to first token that 95% of requests stay below"""
    itl_p95_ms: strict.PositiveFloat | None = None
    """inter-token latency that 95% of requests stay below"""
    e2e_p95_ms: strict.PositiveFloat | None = None
    """end-to-end latency that 95% of requests stay below; one that timed out counts as long as it
    was waited for"""
    failures: Annotated[float, Field(ge=0, le=1)] = 0.02
    """part of the requests that may fail; above it no verdict is given"""


class Workload(strict.StrictModel):
    """The requests that every variant gets."""

    prompts_dir: str
    """folder of prompt classes, relative to the experiment file"""
    classes: Annotated[tuple[PromptClass, ...], Field(min_length=1)]
    """the prompt classes to measure"""
    input_tokens: InputTokens
    """longest prompt, chat template included, tokens; used to check max_model_len. A list: every
    prompt is made so long, one length after the other, by padding or cutting"""
    output_tokens: strict.PositiveInt
    """max_tokens of every request; a prompt's own max_tokens is no more"""
    fixed_output_length: bool = False
    """true: every output has output_tokens, whatever the model says: it writes past its own end"""
    temperature: Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)] = 0.0
    """0: greedy, the outputs of the variants can be compared; above: sampled, where the release's
    servers do so with a draft too"""
    load: LoadSpec | None = None
    """how requests are sent; a ladder 1, 2, 4 .. serving.max_num_seqs when left out"""
    load_generator: load_shapes.LoadGenerator = "asyncio"
    """what sends them: `asyncio`, one process; `llmperf`, its library on Ray, a process for each
    request in flight"""
    requests_per_round: Annotated[int, Field(ge=1, le=MAX_REQUESTS_PER_BLOCK)] = 8
    """measured requests of each case and variant in one round"""
    min_requests: strict.PositiveInt = 16
    """measured requests of each case and variant at each load, at least"""
    max_requests: strict.PositiveInt = 64
    """measured requests of each case and variant, at most: at all loads and in all repetitions
    together; what no load needs goes where the interval is widest"""
    target_interval_width: Annotated[float, Field(gt=0, le=1)] = 0.1
    """rounds go on until the interval of every class's cost ratio is no wider than this part of
    it"""
    limits: ServiceLimits = ServiceLimits()
    """what your service must keep; nothing but failures is limited when left out"""
    warmup_requests: Annotated[int, Field(ge=0, le=1_000)] = 1
    """first requests of each block, not measured; above concurrency 1 at least as many as are in
    flight"""
    parallel: bool = False
    """true: load all variants at once, as llmperf examples do; false: one by one"""
    seed: Annotated[int, Field(ge=INT64[0], le=INT64[-1])] = 0
    """each request's own seed is drawn from it, the same one for every variant; Poisson arrivals
    have it plus the round's number"""
    token_ids: bool = False
    """true: ask for the ids of output tokens, which are kept in the transcripts"""
    enable_thinking: bool = False
    """chat template switch of reasoning models such as Qwen3"""
    request_timeout_seconds: Annotated[float, Field(ge=0.001, le=86_400)] = 300.0
    """a request that takes longer is recorded as failed"""

    @property
    def input_lengths(self) -> tuple[int, ...]:
        """Lengths in tokens to which prompts are padded or cut; empty if prompts keep theirs."""
        return self.input_tokens if isinstance(self.input_tokens, tuple) else ()

    @property
    def most_input_tokens(self) -> int:
        return max(self.input_lengths) if self.input_lengths else cast(int, self.input_tokens)

    def loads(self, max_num_seqs: int) -> tuple[load_shapes.Load, ...]:
        shapes = (self.load or ladder(max_num_seqs)).shapes()
        lengths = self.input_lengths or (None,)
        return tuple(replace(shape, input_tokens=n) for n in lengths for shape in shapes)
