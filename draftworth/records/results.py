"""The result format: one definition for the pod that writes it and for all readers.

A run is a folder (or S3 prefix) named by its run id:

    <run id>/blocks/0003-structured-count-baseline-r1.result.json     the result file, written once
    <run id>/blocks/0003-..._individual_responses.json, ..._summary.json   in llmperf's format
    <run id>/blocks/0003-....transcript.jsonl.gz    each request's text and chunk times, raw
    <run id>/verdict.json                           the verdict of a complete run with a comparison
    <run id>/search.json                            the result of a search
    <run id>/step_costs.json                        the step times of a complete run
    <run id>/run.json                               written last: the run is over, complete or not
    <run id>/run_specification.json                 written first by `measure` and `compare`: what
                                                    is measured, prompts included, for `--resume`
    <run id>/report/report.html, ...                written by the measuring Job after `run.json`

and, if servers were lost, or if another process may continue the run (a pod, `--resume`):

    <run id>/interrupted/0004-....block.json, ....transcript.jsonl.gz   evidence of blocks that
                                                    do not count and were measured again
    <run id>/journal/0002-0003-measured.json        fourth journal entry of the second
                                                    process; a Job's process is a pod

A block is one case, sent to one variant, in one round. Rounds are numbered through all repetitions
of a run, between which all servers are started again. All times are in seconds: fields that end
with `_unix_s` are wall-clock times (UTC), and durations come from one monotonic clock. A value that
was not measured is None, never 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from draftworth.records.codec import Between, Checked
from draftworth.records.findings import RUNS_FOLDER as RUNS_FOLDER
from draftworth.records.findings import VERDICT_FILE
from draftworth.records.load_shapes import Load, LoadGenerator
from draftworth.records.servers import SelfTest, ServingFacts
from draftworth.untrusted import MIB

RESULT_SCHEMA = "draftworth.result/6"
RESULT_SUFFIX = ".result.json"
TRANSCRIPT_SUFFIX = ".transcript.jsonl.gz"
LLMPERF_RESPONSES_SUFFIX = "_individual_responses.json"
LLMPERF_SUMMARY_SUFFIX = "_summary.json"
BLOCKS_FOLDER = "blocks"
INTERRUPTED_FOLDER = "interrupted"
# Not RESULT_SUFFIX, because files with that suffix are published as metrics.
INTERRUPTED_SUFFIX = ".block.json"
RUN_FILE = "run.json"
SPECIFICATION_FILE = "run_specification.json"
# Patterns of the object keys of files that the metrics publisher reads.
PUBLISHED_FILES = (
    f"{RUNS_FOLDER}/*{RESULT_SUFFIX}",
    f"{RUNS_FOLDER}/*/{VERDICT_FILE}",
)
# EventBridge's name for the event of a new S3 object.
OBJECT_CREATED = "Object Created"
# A Lambda function, the metrics publisher, sends the figures of result files to CloudWatch. For
# each file it writes an object into this folder, its claim, which says how much of the file is
# sent. The folder is outside of RUNS_FOLDER, so these objects do not invoke the publisher again.
CLAIMS_FOLDER = "published"
# The event of a new result file goes to the dead-letter queue after this many deliveries to the
# Lambda function that publishes metrics. It is delivered again if another invocation is publishing
# the same file, or if AWS throttles the function; five deliveries are enough for both.
MAX_RECEIVE_COUNT = 5

# The result file of a larger block would exceed the memory of the Lambda function that publishes
# metrics: 11.25 MiB of JSON become up to 285 MiB of Python objects. A request has 600 bytes of
# JSON, a failed request usually at most 1 KiB.
MAX_REQUESTS_PER_BLOCK = 10_000
RESULT_LIMIT_BYTES = 45 * MIB // 4
# Two names already show that more than one model answered. There is a limit because a server could
# send another name with each answer.
MAX_ANSWERING_MODELS = 3
# The variant without speculation and with the engine's own defaults, as a buyer would run it. The
# baseline, in contrast, has the settings that the speculative variants need.
AS_SHIPPED: Final = "baseline-as-shipped"
# The baseline once more, on a second server with other devices. As neither of the two servers
# speculates, their difference shows by how much equal servers differ.
CONTROL: Final = "control"
# Names of servers that a user cannot give to a variant.
RESERVED_NAMES: Final = (AS_SHIPPED, CONTROL)
# There is a limit because each variant needs its own server and makes a report slower.
MAX_VARIANTS = 100
# What ends a run's rounds: intervals that are narrow enough, or intervals that decide.
StopWhen = Literal["precise", "decided"]
# A run that ends when it is decided looks at an interval at most so often: more looks make its
# intervals wider, and hardly end it earlier.
MOST_LOOKS = 50

# Shorter or longer times make ratios that a float cannot represent.
MIN_SECONDS, MAX_SECONDS = 1e-18, 1e9
# Times before 1970 and after the year 9999 are not times of a run.
UnixSeconds = Annotated[float, Between(0, 253_402_300_799)]
Seconds = Annotated[float, Between(MIN_SECONDS, MAX_SECONDS, or_zero=True)]
Count = Annotated[int, Between(0)]
Positive = Annotated[int, Between(1)]
_MOST = 2.0**64
AMOUNT = Between(MIN_SECONDS, _MOST, or_zero=True)
Amount = Annotated[float, AMOUNT]
_ROUNDING = 1e-6

# The limits for sampled outputs: vLLM replaces a lower temperature by its own minimum, and OpenAI's
# API allows no higher temperature.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 2.0
TEMPERATURES = Between(MIN_TEMPERATURE, MAX_TEMPERATURE, or_zero=True)
Temperature = Annotated[float, TEMPERATURES]

UsageSource = Literal["every_chunk", "last_chunk", "none"]
RunStatus = Literal["complete", "failed"]
InterruptionKind = Literal["servers", "load generator"]
# What a server's prefix cache may have of the measured prompts. `cold`: nothing, so a saving is
# withheld where a cache is seen. `salted`: nothing, because each request has its own `cache_salt`.
# `warm`: as much as it has, because the user's own traffic repeats prompts too.
PromptCache = Literal["cold", "salted", "warm"]


def result_file_events(bucket: str) -> dict[str, Any]:
    """Return the EventBridge event pattern for the result files and verdicts of a bucket."""
    files = [{"wildcard": name} for name in PUBLISHED_FILES]
    return {
        "source": ["aws.s3"],
        "detail-type": [OBJECT_CREATED],
        "detail": {"bucket": {"name": [bucket]}, "object": {"key": files}},
    }


@dataclass(frozen=True, kw_only=True)
class RequestRecord(Checked):
    """One request; a failed request has no latencies, and no figures computed from its chunks.

    The first nine fields have the names of llmperf's token_benchmark_ray.py at commit f1d6bed.
    inter_token_latency_s: (last chunk - first chunk) / (output tokens - tokens of the first chunk).
    tokens_per_step: output tokens after the first / verification steps; if the server counts no
        steps, output tokens after the first chunk / chunks after the first.
    first_chunk_tokens: output tokens in the first chunk; 1 if the server does not count by chunk.
    chunks: number of streamed chunks that contain output.
    usage_source: which chunks carry the server's token counts.
    run_queue_wait_s: how long the client was ready to run but had no core during this request.
    excluded: why the timing cannot be trusted; None if it can.
    llmperf_inter_token_latency_s: inter-token latency by llmperf's definition, for comparison only.
    verification_steps, drafted_tokens, accepted_tokens: the server's counts for this request, which
        include tokens after the output's end; None if the server does not report them. Steps
        without drafts, which n-gram drafting has, are added to the server's count.
    seed: the seed of the request, which all variants share for a prompt in a round; None: unknown.
    timed_out_after_s: how long the client waited before it gave up; the end-to-end latency would
        have been longer. None: the request did not time out.
    failed_after_s: how long a request took that failed for another reason; None for other requests.
    cached_input_tokens: how many of the input tokens came from a cache of the server; None: not
        reported.
    """

    error_code: int | None
    error_msg: str
    inter_token_latency_s: Seconds | None = None
    ttft_s: Seconds | None = None
    end_to_end_latency_s: Seconds | None = None
    request_output_throughput_token_per_s: Amount | None = None
    number_total_tokens: Count | None = None
    number_output_tokens: Count | None = None
    number_input_tokens: Count | None = None
    request_id: str
    prompt_id: str
    started_at_unix_s: UnixSeconds
    tokens_per_step: Amount | None = None
    first_chunk_tokens: Count | None = None
    chunks: Count
    usage_source: UsageSource
    finish_reason: str | None = None
    output_sha256: str | None = None
    run_queue_wait_s: Seconds | None = None
    excluded: str | None = None
    llmperf_inter_token_latency_s: Seconds | None = None
    verification_steps: Count | None = None
    drafted_tokens: Count | None = None
    accepted_tokens: Count | None = None
    timed_out_after_s: Seconds | None = None
    failed_after_s: Seconds | None = None
    seed: int | None = None
    cached_input_tokens: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.cached_input_tokens or 0) > (self.number_input_tokens or 0):
            raise ValueError(
                f"cached_input_tokens: given {self.cached_input_tokens}, allowed: at most the "
                f"{self.number_input_tokens} of number_input_tokens"
            )
        if (self.accepted_tokens or 0) > (self.drafted_tokens or 0):
            raise ValueError(
                f"accepted_tokens: given {self.accepted_tokens}, allowed: at most the "
                f"{self.drafted_tokens} of drafted_tokens"
            )

    @property
    def failed(self) -> bool:
        return self.error_code is not None

    @property
    def counts(self) -> bool:
        # `error_code`, and not `failed`: this is asked a million times for a report.
        return self.error_code is None and self.excluded is None

    @property
    def lost_s(self) -> float | None:
        """How long a failed request took until it failed; None if it is not known."""
        return self.failed_after_s if self.timed_out_after_s is None else self.timed_out_after_s

    @property
    def took_s(self) -> float:
        return self.lost_s or self.end_to_end_latency_s or 0.0


@dataclass(frozen=True, kw_only=True)
class SpeculationCounters:
    """The increase of a server's counters (vLLM `spec_decode_num_*_total`) during one block.

    drafts: number of steps that had drafted tokens. draft_tokens: number of drafted tokens.
    accepted_per_position: accepted tokens at draft position 0, 1, ...; empty if not counted.
    generated_tokens: output tokens of all requests; None if not counted.
    """

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...] = ()
    generated_tokens: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.accepted_tokens <= self.draft_tokens:
            raise ValueError(
                f"accepted_tokens: given {self.accepted_tokens}, allowed: 0 to the "
                f"{self.draft_tokens} of draft_tokens"
            )
        if not all(0 <= accepted <= self.drafts for accepted in self.accepted_per_position):
            raise ValueError(f"accepted_per_position: allowed: 0 to the {self.drafts} of drafts")
        if (self.generated_tokens or 0) < 0:
            raise ValueError(f"generated_tokens: given {self.generated_tokens}, allowed: 0 or more")


@dataclass(frozen=True, kw_only=True)
class PrefixCacheCounters:
    """The increase of vLLM's counters of its prefix cache during one block.

    queried_tokens: prompt tokens that were looked up. cached_tokens: those that were found. Both
        are of all requests of the block, so warm-up and fillers are included.
    """

    queried_tokens: int
    cached_tokens: int

    def __post_init__(self) -> None:
        if not 0 <= self.cached_tokens <= self.queried_tokens:
            raise ValueError(
                f"cached_tokens: given {self.cached_tokens}, allowed: 0 to the "
                f"{self.queried_tokens} of queried_tokens"
            )


@dataclass(frozen=True, kw_only=True)
class ServerTimings:
    """The increase of vLLM's histogram `request_time_per_output_token_seconds` during one block.

    The histogram has one time for each request that ended: `time_per_output_token_sum_s` is the sum
    of these times, `time_per_output_token_count` their number.
    """

    time_per_output_token_sum_s: float
    time_per_output_token_count: int


@dataclass(frozen=True, kw_only=True)
class OtherRequests(Checked):
    """The sum and the number of inter-token latencies of a block's unmeasured requests.

    The server's histograms include these requests too: the warm-up, and fillers, which keep up the
    load while the last measured requests run.
    """

    inter_token_latency_sum_s: Amount = 0.0
    inter_token_latency_count: Count = 0


@dataclass(frozen=True, kw_only=True)
class BlockResult(Checked):
    """One result file: the requests of one case to one variant in one round.

    repetition: from 1; all servers are started again before the next repetition.
    slot: number of the server's slot (its devices), counted over all nodes; None: unknown.
    started_at_unix_s: the start of the warm-up.
    warmup_requests: number of requests that were sent before the measured requests.
    fillers: number of requests that kept the load complete while the last measured requests ran.
    others: latencies of the warm-up and the fillers, with which the client's times are checked
        against the server's histograms.
    max_tokens_per_step: the most tokens that a step can yield, 1 without speculation; None:
        unknown. `run.json` has this value too.
    speculation, server, prefix_cache: the server's counts during the block; None: no usable counts.
    answering_models: the models that the answers name, each once, up to `MAX_ANSWERING_MODELS`;
        empty if they name none. `model` is the model in the requests.
    """

    schema: str = RESULT_SCHEMA
    run_id: str
    experiment: str
    variant: str
    prompt_class: str
    case: str
    repetition: Positive = 1
    round: int
    slot: Count | None = None
    block: int
    model: str
    load: Load
    started_at_unix_s: UnixSeconds
    ended_at_unix_s: UnixSeconds
    warmup_requests: int
    fillers: int = 0
    others: OtherRequests = OtherRequests()
    max_tokens_per_step: Positive | None = None
    speculation: SpeculationCounters | None
    server: ServerTimings | None
    requests: tuple[RequestRecord, ...]
    answering_models: tuple[str, ...] = ()
    prefix_cache: PrefixCacheCounters | None = None

    @property
    def stem(self) -> str:
        """The block's file name without suffix, unique in its run.

        It begins with the block's number, so sorted names are in the order of measuring.
        """
        return (
            f"{self.block:04d}-{self.prompt_class}-{self.case}-{self.load.label}-{self.variant}"
            f"-r{self.round}"
        )

    @property
    def key(self) -> str:
        return f"{RUNS_FOLDER}/{self.run_id}/{BLOCKS_FOLDER}/{self.stem}{RESULT_SUFFIX}"

    @property
    def output_tokens(self) -> int:
        return sum(r.number_output_tokens or 0 for r in self.requests if not r.failed)

    @property
    def output_seconds(self) -> float:
        took = (request.took_s for request in self.requests)
        return self.load.server_seconds(took, span_seconds=self.span_seconds)

    @property
    def span_seconds(self) -> float:
        """Seconds from the first start to the last end of the requests that did not fail."""
        done = [r for r in self.requests if not r.failed]
        ends = [r.started_at_unix_s + (r.end_to_end_latency_s or 0.0) for r in done]
        return max(ends) - min(r.started_at_unix_s for r in done) if done else 0.0

    @property
    def output_throughput_token_per_s(self) -> float | None:
        """Output tokens per second of the block; None if every request failed or the time is 0."""
        if all(r.failed for r in self.requests) or self.output_seconds <= 0:
            return None
        return self.output_tokens / self.output_seconds


@dataclass(frozen=True, kw_only=True)
class Limits(Checked):
    """The limits of the user's service; a variant that exceeds them is not chosen, however cheap.

    ttft_p95_s, itl_p95_s, e2e_p95_s: limits of 95th percentiles of all requests; None: no limit.
    failed_share: the part of all requests that may fail, 0 to 1.
    """

    ttft_p95_s: Seconds | None = None
    itl_p95_s: Seconds | None = None
    e2e_p95_s: Seconds | None = None
    failed_share: Annotated[float, Between(0, 1)] = 0.02

    @property
    def are_on_latencies(self) -> bool:
        return (self.ttft_p95_s, self.itl_p95_s, self.e2e_p95_s) != (None, None, None)


@dataclass(frozen=True, kw_only=True)
class Price(Checked):
    """The price of a node, and each variant's share of a node.

    as_of: the day on which the price was looked up, YYYY-MM-DD. source: where it was looked up.
    node_shares: the share of a node that each variant's server has, 1 for a whole node.
    nodes: number of accelerator nodes, which are all billed while the run lasts.
    """

    usd_per_node_hour: Amount
    as_of: str
    source: str
    node_shares: Mapping[str, float]
    nodes: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        for variant, share in self.node_shares.items():
            AMOUNT.check(f"node_shares.{variant:.60}", share)


@dataclass(frozen=True, kw_only=True)
class Interruption(Checked):
    """A loss of servers or of the load generator, after which the run continued.

    Kind `servers`: servers stopped answering, and the blocks whose stems are in `blocks` were
        measured again. `lost_s` is the time of these blocks in seconds.
    Kind `load generator`: the measuring process (a Job's pod, or a command) ended early, and a
        new one continued. `lost_s` is the time from the old one's last recorded work to the new
        one's start, in seconds.
    """

    kind: InterruptionKind
    at_unix_s: UnixSeconds
    lost_s: float
    blocks: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class TimeAccount:
    """The parts of a run's time, in seconds, from its first start to its end.

    measuring_s: the time of blocks that count, with their warm-ups.
    waiting_s: the time of waiting for servers that pull images, load models or compile.
    lost_s: the time that all interruptions cost (`Interruption.lost_s`).
    idle_s: all other time: reading the servers' metrics, writing files, computing statistics.
    """

    measuring_s: float = 0.0
    waiting_s: float = 0.0
    lost_s: float = 0.0
    idle_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ServerStart(Checked):
    """Values that a server reports of its last start; None: the server does not report the value.

    startup_s: seconds from the start of the server's workers until it is ready.
    graphs: number of compiled graphs. compilation_s: sum of their compilation times in seconds.
    load_s, load_bytes: seconds and bytes of copying the weights to the devices.
    """

    startup_s: Seconds | None = None
    compilation_s: Seconds | None = None
    graphs: Count | None = None
    load_s: Seconds | None = None
    load_bytes: Annotated[float, Between(1, _MOST, or_zero=True)] | None = None


@dataclass(frozen=True, kw_only=True)
class PassedGate(Checked):
    """A check (gate) that a run passed before it measured: a server had to answer a prompt.

    gate: what had to work (`draftworth/measuring/gates.py`). variant: the server that answered.
    seconds: how long the answer took. tokens: output tokens of the answer; None if not counted.
    """

    gate: str
    variant: str
    at_unix_s: UnixSeconds
    seconds: Seconds
    tokens: Count | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult(Checked):
    """`run.json`: written last, so its presence means that the run is over.

    If a run failed before it began, the fields have their defaults.

    reason: why the run failed; empty if it is complete. blocks: stems of the blocks that count.
    started_at_unix_s: the start of the first pod, if several pods measured the run.
    max_tokens_per_step: the most tokens that a step can yield, by variant, where it is known.
    lookup_lengths: by variant, how many of the last tokens n-gram drafting looks up (the fewest and
        the most), where `compare` was given them.
    target_interval_width: width of an interval, relative to its ratio, at which measuring ends.
    looks: the most times that the run may look at an interval to end as soon as it decides, so all
        intervals of its comparisons are wider; 1: what they decide does not end the run.
    temperature: 0 means greedy, so that variant and baseline should give the same outputs.
    class_weights: each prompt class's part of the traffic (sum: 1); empty without an experiment.
    scheduling: the Linux scheduling class of the client's process, in words.
    repetitions: how many repetitions the experiment has; all servers are started again between two.
    shortened: why a complete run ended before everything planned was measured; empty if it did not.
    server_starts: the values that servers report of their last start, by variant; a variant is
        missing if its server reported none.
    self_tests: the self-test of each server's newest pod, by the server's name.
    serving: the engine, target and devices; None if the servers at the endpoints are not known.
    prompt_cache: what a server's prefix cache may have of the measured prompts.
    chosen_by: by prompt class, the SHA-256 of the record with which `prompts choose` chose its
        prompts; classes with other prompts are missing.
    gates: passed gates in the order of time; servers pass a gate again after they were changed.
    draftworth_version: the version that wrote the file; the error that a reader raises for an
        unknown `schema` names it.
    """

    schema: str = "draftworth.run/8"
    run_id: str
    experiment: str
    status: RunStatus
    reason: str
    started_at_unix_s: UnixSeconds
    ended_at_unix_s: UnixSeconds
    variants: tuple[str, ...] = ()
    baseline: str = ""
    blocks: tuple[str, ...] = ()
    max_tokens_per_step: Mapping[str, int] = field(default_factory=dict)
    lookup_lengths: Mapping[str, tuple[Positive, Positive]] = field(default_factory=dict)
    target_interval_width: Annotated[float, Between(_ROUNDING, _MOST, or_zero=True)] = 0.0
    looks: Annotated[int, Between(1, MOST_LOOKS)] = 1
    temperature: Temperature = 0.0
    class_weights: Mapping[str, float] = field(default_factory=dict)
    limits: Limits = Limits()
    price: Price | None = None
    load_generator: LoadGenerator | None = None
    scheduling: str = ""
    repetitions: int = 1
    shortened: str = ""
    time: TimeAccount = TimeAccount()
    interruptions: tuple[Interruption, ...] = ()
    server_starts: Mapping[str, ServerStart] = field(default_factory=dict)
    self_tests: Mapping[str, SelfTest] = field(default_factory=dict)
    serving: ServingFacts | None = None
    gates: tuple[PassedGate, ...] = ()
    prompt_cache: PromptCache = "cold"
    chosen_by: Mapping[str, str] = field(default_factory=dict)
    draftworth_version: str = ""

    @property
    def prompts_are_new(self) -> bool:
        """Whether the run is about prompts that servers have not in a prefix cache."""
        return self.prompt_cache != "warm"

    @property
    def of_own_servers(self) -> bool:
        """Whether `measure` or `compare` made the run: it has no experiment, so no traffic mix."""
        return not self.class_weights

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(set(self.variants)) == len(self.variants) <= MAX_VARIANTS:
            raise ValueError(f"variants: allowed: at most {MAX_VARIANTS}, each once")
        if not self.server_starts.keys() <= {*self.variants}:
            raise ValueError("server_starts: allowed: names of the run's variants")
        weights = self.class_weights.values()
        if weights and not (min(weights) >= 0 and abs(sum(weights) - 1) <= _ROUNDING):
            raise ValueError(
                f"class_weights: given {[*weights]!r:.80}, allowed: parts that add up to 1"
            )


def claim_key(key: str) -> str:
    """Return the key of the object that says how much of the result file `key` is in CloudWatch."""
    return f"{CLAIMS_FOLDER}/{key}.json"


def values_of(records: Iterable[RequestRecord], field: str) -> list[float]:
    """Return the values of `field` that are not None, without failed and excluded requests."""
    values = (getattr(record, field) for record in records if record.counts)
    return [float(value) for value in values if value is not None]
