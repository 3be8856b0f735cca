"""Lists what worked in a run: its software, and the gates that each server passed, with times.

A gate is something that has to work before the next one can: a server's self-test, its first
answer, the load. Of the first run in an account this list is the main result: it shows how far the
run came.
"""

from collections.abc import Iterator

from draftworth.errors import counted
from draftworth.records.results import BlockResult
from draftworth.records.run_folder import Run
from draftworth.records.servers import ServingFacts
from draftworth.report import words
from draftworth.report.document import Section, table

TITLE = "What worked"


def worked_sections(run: Run) -> tuple[Section, ...]:
    """Return the section on a run's software and the gates that each server passed, with times.

    A gate is something that has to work before the next one can, such as a server's first answer.
    The result is empty for pooled runs, or if no gate was passed.
    """
    rows = [*_test_rows(run), *_answer_rows(run), *_load_rows(run)]
    if not rows or run.is_pool:
        return ()
    serving = run.result.serving
    return (
        Section(
            title=TITLE,
            paragraphs=(_software(serving),) if serving else (),
            tables=table(("gate", "of", "worked", "after min", "took s"), rows, names=3),
        ),
    )


def _software(serving: ServingFacts) -> str:
    image = f", image {serving.image}" if serving.image else ""
    nodes = f", on {serving.instance_type}" if serving.instance_type else ""
    return f"Release {serving.release}: vLLM {serving.vllm_version}{image}{nodes}."


def _test_rows(run: Run) -> Iterator[tuple[str, ...]]:
    for server, test in run.result.self_tests.items():
        if not test.failed:
            versions = (("driver", test.driver), ("runtime", test.runtime))
            software = [f"{name} {version}" for name, version in versions if version]
            setup = f"{counted(len(test.devices), 'device')}, {', '.join(software)}".rstrip(", ")
            yield "self-test", server, setup, words.MISSING, words.number(test.seconds)


def _answer_rows(run: Run) -> Iterator[tuple[str, ...]]:
    first = {(gate.gate, gate.variant): gate for gate in reversed(run.result.gates)}
    for gate in sorted(first.values(), key=lambda gate: gate.at_unix_s):
        tokens = counted(gate.tokens, "token") if gate.tokens else "an answer"
        yield _row(run, gate.gate, gate.variant, tokens, gate.at_unix_s, gate.seconds)


def _load_rows(run: Run) -> Iterator[tuple[str, ...]]:
    answered: dict[str, list[BlockResult]] = {}
    for block in run.blocks:
        if not all(request.failed for request in block.requests):
            answered.setdefault(block.variant, []).append(block)
    for variant, blocks in answered.items():
        loads = ", ".join(dict.fromkeys(block.load.words for block in blocks))
        begun, ended = blocks[0].started_at_unix_s, blocks[0].ended_at_unix_s
        yield _row(run, "load", variant, loads, ended, ended - begun)


def _row(
    run: Run, gate: str, variant: str, worked: str, at_unix_s: float, seconds: float
) -> tuple[str, ...]:
    after_minutes = (at_unix_s - run.result.started_at_unix_s) / 60
    return gate, variant, worked, words.number(after_minutes), words.number(seconds)
