"""A measuring Job's program in tests: its specification, its environment and its servers."""

from collections.abc import Callable, Sequence
from pathlib import Path

from draftworth.measuring import run_specification
from draftworth.records.codec import load_record
from draftworth.records.load_shapes import LoadGenerator
from draftworth.records.prompt_files import Case, Prompt
from draftworth.records.results import RUN_FILE, RunResult
from tests.support.specifications import endpoint, sampling, shape, specification
from tests.support.stream_server import Request, Step, completion, plain

IN_A_JOB = {
    run_specification.JOB_NAME_VARIABLE: "llmperf-test-01234567",
    run_specification.JOB_UID_VARIABLE: "89abcdef-0000-0000-0000-000000000000",
}
RUN_OF_THE_JOB = "llmperf-test-01234567-89abcdef"

# The type of a function that runs the measuring program in a test. It takes the specification,
# arguments and environment variables, and returns the exit code and the log.
Program = Callable[..., tuple[int, str]]

CASE = Case(
    prompt_class="structured",
    name="count",
    prompts=(Prompt(id="p", messages=({"role": "user", "content": "x"},)),),
)


def spec_for(url: str, *, load_generator: LoadGenerator = "asyncio") -> run_specification.RunSpec:
    return specification(
        (endpoint("baseline", 0, base_url=url, server=""),),
        experiment="test",
        shape=shape(output_tokens=2),
        cases=(CASE,),
        load_generator=load_generator,
        sampling=sampling(requests_per_round=2, min_requests=2, max_requests=2),
        ready_deadline_seconds=60.0,
    )


def healthy(request: Request) -> Sequence[Step]:
    return plain("200 OK", b"") if request.method == "GET" else completion(1, 1)


def stalled(request: Request) -> Sequence[Step]:
    if request.method == "GET":
        return plain("200 OK", b"")
    return completion(1, 1, gap_seconds=4)


def result_of_the_job(folder: Path) -> RunResult:
    return load_record(RunResult, (folder / "out" / RUN_OF_THE_JOB / RUN_FILE).read_bytes())
