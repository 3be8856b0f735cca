"""Rules of the workload: how outputs are sampled, how requests are sent, which prompts fit."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from draftworth.errors import Problem, counted
from draftworth.experiment.model import Experiment, LocalExperiment, loads_of
from draftworth.experiment.rules.registry import prompts_rule, rule
from draftworth.records.codec import dump_json
from draftworth.records.load_shapes import MAX_LLMPERF_IN_FLIGHT
from draftworth.records.prompt_files import MAX_PROMPT_BYTES, Case, Prompt
from draftworth.records.results import MAX_TEMPERATURE, MIN_TEMPERATURE, MOST_LOOKS

# With `token_ids` the server sends the ids of all prompt tokens in one event. The client reads
# events of at most 1 MB; a token id and its comma have at most 8 bytes.
MAX_INPUT_TOKENS_WITH_IDS = 100_000


@rule("all-variants-sample-alike")
def _all_variants_sample_alike(experiment: Experiment) -> Iterator[Problem]:
    temperature, why = experiment.workload.temperature, experiment.release_facts.refuses_sampling
    if temperature >= MIN_TEMPERATURE and why:
        yield Problem(
            key=("workload", "temperature"),
            actual=f"{temperature:g} on release {experiment.release}",
            allowed="0; or serve each variant yourself, measure each with `draftworth "
            "measure --temperature`, and compare their texts before their speeds",
            reason=why,
        )


@rule("temperature-is-taken-as-it-is")
def _temperature_is_taken_as_it_is(experiment: Experiment) -> Iterator[Problem]:
    temperature = experiment.workload.temperature
    if 0 < temperature < MIN_TEMPERATURE:
        yield Problem(
            key=("workload", "temperature"),
            actual=f"{temperature:g}",
            allowed=f"0, which is greedy, or {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}",
            reason=f"vLLM raises a lower one to {MIN_TEMPERATURE:g}",
        )


@rule("load-generator-can-send")
def _load_generator_can_send(experiment: Experiment) -> Iterator[Problem]:
    work = experiment.workload
    if work.load_generator == "asyncio":
        return
    key = ("workload", "load_generator")
    if isinstance(experiment, LocalExperiment):
        yield Problem(
            key=key,
            actual=work.load_generator,
            allowed="asyncio, which is the default",
            reason="llmperf and Ray are in the image of the measuring Job, which runs on AWS; here "
            "requests are sent by the process that runs the experiment",
        )
    # With a search two servers run: the baseline's and one candidate's.
    servers = 2 if experiment.search else len(experiment.served_variants)
    at_once = servers if work.parallel else 1
    in_flight = at_once * max(load.in_flight or 1 for load in loads_of(experiment))
    if in_flight > MAX_LLMPERF_IN_FLIGHT:
        yield Problem(
            key=key,
            actual=f"{work.load_generator} with {in_flight} requests in flight",
            allowed=f"at most {MAX_LLMPERF_IN_FLIGHT} in flight, or asyncio",
            reason="llmperf has a process for each of them, and the measuring Job's pod has no "
            "memory for more",
        )


@rule("token-ids-can-be-told")
def _token_ids_can_be_sent(experiment: Experiment) -> Iterator[Problem]:
    work, key = experiment.workload, ("workload", "token_ids")
    if not work.token_ids:
        return
    if not experiment.release_facts.tells_token_ids:
        yield Problem(
            key=key,
            actual=f"true on release {experiment.release}",
            allowed="false, or a release with vLLM 0.10.2 or later",
            reason=f"vLLM {experiment.release_facts.vllm_version} does not know return_token_ids",
        )
    if work.most_input_tokens > MAX_INPUT_TOKENS_WITH_IDS:
        yield Problem(
            key=key,
            actual=f"true with workload.input_tokens {work.most_input_tokens}",
            allowed=f"false, or at most {MAX_INPUT_TOKENS_WITH_IDS:,} input tokens",
            reason="the server sends the prompt's ids in one event, which the client would refuse "
            "for its length",
        )


@rule("budget-reaches-everywhere")
def _budget_reaches_everywhere(experiment: Experiment) -> Iterator[Problem]:
    work, loads, repetitions = experiment.workload, loads_of(experiment), experiment.repetitions
    parts = len(loads) * repetitions
    shared = ""
    if parts > 1:
        labels = ", ".join(load.label for load in loads)
        shared = f", shared by loads {labels} in {counted(repetitions, 'repetition')}"
    one_each = parts * work.requests_per_round
    if one_each > work.max_requests:
        yield Problem(
            key=("workload", "max_requests"),
            actual=f"{work.max_requests} with requests_per_round {work.requests_per_round}{shared}",
            allowed=f"{one_each} or more, or fewer requests per round, loads or repetitions",
            reason="all loads and repetitions share it, and one round of each takes "
            f"{one_each} requests of every case and variant",
        )
        return
    rounds_per_load = work.max_requests // one_each * repetitions
    most = rounds_per_load * work.requests_per_round
    if work.min_requests > most:
        needed = math.ceil(work.min_requests / work.requests_per_round / repetitions) * one_each
        yield Problem(
            key=("workload", "min_requests"),
            actual=f"{work.min_requests} with max_requests {work.max_requests}{shared}",
            allowed=f"at most {most}, or max_requests of {needed} or more",
            reason=f"each load would need more requests than its part: {most}, in whole rounds of "
            f"{work.requests_per_round}",
        )


@rule("a-verdict-can-end-it")
def _a_verdict_can_end_it(experiment: Experiment) -> Iterator[Problem]:
    work = experiment.workload
    if work.stop == "precise":
        return
    if experiment.search:
        yield Problem(
            key=("workload", "stop"),
            actual=f"{work.stop}, and a search",
            allowed="precise, which is the default; then decided, in an experiment of its own that "
            "measures the best candidate again",
            reason="what a search measures next follows from how precisely it knows the costs of "
            "the candidates measured so far",
        )
    if work.requests_per_second:
        yield Problem(
            key=("workload", "stop"),
            actual=f"{work.stop}, and workload.requests_per_second {work.requests_per_second}",
            allowed="precise, which is the default, or workload.concurrency",
            reason="at rates no verdict of a single load decides, but the highest rate that keeps "
            "the limits",
        )
    if work.max_requests // work.requests_per_round > MOST_LOOKS:
        yield Problem(
            key=("workload", "stop"),
            actual=f"{work.stop} with max_requests {work.max_requests} and requests_per_round "
            f"{work.requests_per_round}",
            allowed=f"at most {MOST_LOOKS} rounds: fewer max_requests, more requests_per_round, or "
            "precise",
            reason="the run looks at its verdicts after each round; each further look makes all "
            "intervals wider, and hardly ends the run earlier",
        )


@rule("one-kind-of-load")
def _one_kind_of_load(experiment: Experiment) -> Iterator[Problem]:
    work = experiment.workload
    if work.concurrency and work.requests_per_second:
        yield Problem(
            key=("workload", "requests_per_second"),
            actual=f"{work.requests_per_second}, and workload.concurrency {work.concurrency}",
            allowed="one of the two",
            reason="a load has a number of requests in flight, or a rate at which they arrive",
        )


@rule("each-load-is-worth-its-warm-up")
def _each_load_is_worth_its_warm_up(experiment: Experiment) -> Iterator[Problem]:
    work = experiment.workload
    rungs = len(loads_of(experiment)) // max(1, len(work.input_lengths))
    for rung, load in enumerate(loads_of(experiment)[:rungs]):
        in_flight = load.in_flight or 1
        if in_flight > work.requests_per_round:
            yield Problem(
                key=("workload", "concurrency", *([rung] if len(work.concurrencies) > 1 else [])),
                actual=f"{in_flight} requests in flight with workload.requests_per_round "
                f"{work.requests_per_round}",
                allowed=f"at most {work.requests_per_round} (if concurrency is left out, "
                f"serving.max_num_seqs), or requests_per_round of {in_flight} or more",
                reason=f"{load.label} takes {in_flight} requests of warm-up to build up and "
                "as many fillers to keep until the end: with fewer measured requests than that, "
                "most of what a block sends would not be measured",
            )


@rule("classes-once")
def _classes_once(experiment: Experiment) -> Iterator[Problem]:
    counts = Counter(c.name for c in experiment.workload.classes)
    for index, prompt_class in enumerate(experiment.workload.classes):
        if counts[prompt_class.name] > 1:
            yield Problem(
                key=("workload", "classes", index),
                actual=f'"{prompt_class.name}" twice',
                allowed="each class once",
                reason="its requests would count double in the class's figures",
            )


@rule("weights-of-all-or-of-none")
def _weights_of_all_or_of_none(experiment: Experiment) -> Iterator[Problem]:
    classes = experiment.workload.classes
    without = [i for i, one in enumerate(classes) if "weight" not in one.model_fields_set]
    for index in without if len(without) < len(classes) else ():
        yield Problem(
            key=("workload", "classes", index),
            actual=f'"{classes[index].name}" without a weight, beside classes with one',
            allowed="weight: its part of your output tokens; or no weight: all classes count alike",
            reason="the parts add up to the whole: 70 beside 1 is a mix of 98.6% to 1.4%",
        )


@prompts_rule("prompts-fit-the-load-generator")
def _prompts_fit_the_load_generator(
    experiment: Experiment, cases: Sequence[Case]
) -> Iterator[Problem]:
    """Refuse prompts that would be refused only in the measuring Job, when nodes are paid for."""
    if isinstance(experiment, LocalExperiment):
        return
    size = sum(len(dump_json(case)) for case in cases)
    if size > MAX_PROMPT_BYTES:
        yield Problem(
            key=("workload", "classes"),
            actual=f"{size:,} bytes of prompts, written as JSON",
            allowed=f"at most {MAX_PROMPT_BYTES:,} bytes in all classes together",
            reason="the measuring Job holds them in memory; take a sample of your prompts, or "
            "fewer cases (workload.classes[].cases)",
        )


@prompts_rule("tool-calls-can-be-read")
def _tool_calls_can_be_read(experiment: Experiment, cases: Sequence[Case]) -> Iterator[Problem]:
    """Require `serving.tool_call_parser` if a prompt has tools that the model may choose to call.

    Without this parser, vLLM answers such requests with status 400.
    """
    places = _which(cases, lambda prompt: prompt.tools and prompt.tool_choice in (None, "auto"))
    if places and not experiment.serving.tool_call_parser:
        yield Problem(
            key=("serving", "tool_call_parser"),
            actual=f"nothing, and {places} with tools that the model may call",
            allowed="the name of a tool call parser of vLLM that fits the target, such as hermes "
            "for Qwen3 or llama3_json for Llama 3.1; or in these prompts another tool_choice than "
            "auto, which is the default",
            reason="a server without a parser refuses such requests",
        )


@prompts_rule("length-is-not-forced")
def _length_is_not_forced(experiment: Experiment, cases: Sequence[Case]) -> Iterator[Problem]:
    places = _which(cases, lambda prompt: prompt.tools or prompt.response_format)
    if places and experiment.workload.fixed_output_length:
        yield Problem(
            key=("workload", "fixed_output_length"),
            actual=f"true, and {places} with tools or a response_format",
            allowed="false, which is the default",
            reason="such an answer ends where its form ends: text that the model is forced to "
            "write after that is not part of your traffic",
        )


def _which(cases: Sequence[Case], wanted: Callable[[Prompt], object]) -> str:
    prompts = [(c, p) for c in cases for p in c.prompts if wanted(p)]
    if not prompts:
        return ""
    case, prompt = prompts[0]
    first = f"{case.prompt_class}/{case.name}, {prompt.id}"
    return f"{counted(len(prompts), 'prompt')} (the first: {first})"
