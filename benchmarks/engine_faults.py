"""Counts how often a planted fault of an engine is noticed, and how often one is seen in none.

    python -m benchmarks.engine_faults [--runs 200]

It takes two minutes. With a fault, a share of an engine's steps accepts no drafted token, so that
a certain share of the tokens per step is lost. The deployed rule (`analysis/engine_loss.py`) judges
each run of 64 requests by what a run has: each output as the draft reads it, its streamed chunks,
and the server's counts. docs/appendix/calibration.md explains the columns. All random numbers are
seeded, so the table is the same each time.
"""

import argparse
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from draftworth.analysis.engine_loss import EngineLoss, EngineVerdict, engine_losses_of
from draftworth.estimate.replayed_run import steps_of_requests
from draftworth.measuring.chunks import Acceptance
from draftworth.records.allowed_steps import AllowedSteps, VariantSteps
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.readings import Reading
from draftworth.records.results import BlockResult, RequestRecord, RunResult
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript
from draftworth.speculation import steps_of

NAME, CASE = "planted", "case"
CHECKED, MEAN_TOKENS, MEAN_HITS, HITS_SPREAD = 5, 100, 0.75, 0.15
START_UNIX_S = 1_795_168_800.0
LOAD = ConcurrencyLoad(concurrency=8)
PER_ROUND, ROUNDS = 8, 8


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The settings of simulated runs.

    loss: the share (0 to 1) of the tokens per step that the fault loses in the answers that it
        affects.
    sampled: whether a prompt's answers differ from round to round.
    near_ties: share of tokens at which the draft's two best tokens are so near that the engine and
        the model that reads the output each choose one by chance.
    merged: share of chunks that arrive together with the chunk before.
    counts: whether the server counts the accepted tokens of each request.
    affects: in which answers the engine has the fault, by round and prompt; `where`: in words.
    """

    loss: float
    sampled: bool = False
    near_ties: float = 0.0
    merged: float = 0.0
    counts: bool = True
    prompts: int = 16
    affects: Callable[[int, int], bool] = lambda _round, _prompt: True
    where: str = "everywhere"


CELLS = (
    Cell(loss=0.0),
    Cell(loss=0.03),
    Cell(loss=0.0, near_ties=0.01),
    Cell(loss=0.03, near_ties=0.01),
    Cell(loss=0.0, sampled=True, near_ties=0.01),
    Cell(loss=0.03, sampled=True, near_ties=0.01),
    Cell(loss=0.0, merged=0.05),
    Cell(loss=0.03, merged=0.05),
    Cell(loss=0.0, merged=0.02, counts=False),
    Cell(loss=0.03, merged=0.02, counts=False),
    Cell(loss=0.0, near_ties=0.01, merged=0.02, counts=False),
    Cell(loss=0.03, near_ties=0.01, merged=0.02, counts=False),
    Cell(loss=0.0, prompts=64, near_ties=0.01),
    Cell(loss=0.03, prompts=64, near_ties=0.01),
    Cell(loss=0.0, prompts=8, near_ties=0.01),
    Cell(loss=0.03, prompts=8, near_ties=0.01),
    Cell(loss=0.1, affects=lambda number, _: number == 1, where="in the first round"),
    Cell(loss=0.1, affects=lambda _, prompt: prompt >= 11, where="in long contexts"),
)


class PlantedRun:
    """A simulated run of a cell, with the steps that its texts and its draft allow.

    rejecting: the share of the steps of affected answers that accept no drafted token.
    """

    def __init__(self, cell: Cell, seed: int, rejecting: float) -> None:
        self.cell = cell
        self._rejecting = rejecting
        self._seed = seed
        self._generator = random.Random(seed)  # noqa: S311 (reproducible draws, not a secret)
        self._transcripts: dict[str, Transcript] = {}
        self._readings: dict[str, Reading] = {}

    def run(self) -> Run:
        numbers = range(1, ROUNDS + 1)
        blocks = tuple(_block(n, self._records(n)) for n in numbers)
        steps = steps_of_requests(blocks, self._transcripts, self._readings, CHECKED)
        allowed = VariantSteps(variant=NAME, draft=NAME, requests=steps)
        return Run(
            result=_result(),
            blocks=blocks,
            allowed_steps=(AllowedSteps(run_id=NAME, variants=(allowed,)),),
        )

    def _records(self, number: int) -> Sequence[RequestRecord]:
        first = (number - 1) * PER_ROUND
        return [
            self._record(number, n % self.cell.prompts) for n in range(first, first + PER_ROUND)
        ]

    def _record(self, number: int, prompt: int) -> RequestRecord:
        cell, name = self.cell, f"{number}-{prompt}"
        tokens, acceptance = _text_of(self._seed, prompt)
        of_text = f"{self._seed} {prompt} {number if cell.sampled else ''}"
        hits = _hits(of_text, tokens + CHECKED, acceptance)
        read, drafted = _with_near_ties(hits, cell.near_ties, of_text, self._generator)
        share = self._rejecting if cell.affects(number, prompt) else 0.0
        steps, accepted = taken_steps(drafted, tokens, share, self._generator)
        chunks = _merged((1, *steps), cell.merged, self._generator)
        self._transcripts[name] = Transcript(request_id=name, chunk_tokens=chunks)
        self._readings[name] = _reading(name, read[:tokens])
        counts = Acceptance(
            steps_with_drafts=len(steps),
            drafted_tokens=CHECKED * len(steps),
            accepted_tokens=accepted,
        ).of_answer(output_tokens=tokens + 1, chunks=len(chunks))
        return _request(name, prompt, chunks, counts if cell.counts else {})


def _text_of(seed: int, prompt: int) -> tuple[int, float]:
    """Return a prompt's number of output tokens after the first, and the draft's hit rate."""
    generator = random.Random(f"prompt {seed} {prompt}")  # noqa: S311
    tokens = max(20, round(MEAN_TOKENS * generator.lognormvariate(-0.08, 0.4)))
    return tokens, min(0.98, max(0.2, generator.gauss(MEAN_HITS, HITS_SPREAD)))


def _hits(of_text: str, tokens: int, acceptance: float) -> list[bool]:
    generator = random.Random(of_text)  # noqa: S311
    return [generator.random() < acceptance for _ in range(tokens)]


def _with_near_ties(
    hits: Sequence[bool], share: float, of_text: str, generator: random.Random
) -> tuple[list[bool], list[bool]]:
    """Return the hits that a model reads, and those of the engine, which differ at near ties.

    share: the share of near ties. of_text: names the text, whose near ties are always the same.
    """
    of_ties = random.Random(f"ties {of_text}")  # noqa: S311
    read, drafted = [], []
    for hit in hits:
        is_tie = of_ties.random() < share
        read.append(of_ties.random() < 0.5 if is_tie else hit)
        drafted.append(generator.random() < 0.5 if is_tie else hit)
    return read, drafted


def taken_steps(
    drafted: Sequence[bool], tokens: int, rejecting: float, generator: random.Random
) -> tuple[list[int], int]:
    """Return the output tokens of an engine's steps, and how many drafted tokens it accepted.

    It also counts drafted tokens that its last step accepts after the output's end.
    drafted: whether each drafted token is acceptable, also after the output's end.
    tokens: the output tokens after the first. rejecting: the share of steps that accept nothing.
    """
    steps, accepted, yielded = [], 0, 0
    while yielded < tokens:
        checked = 0 if generator.random() < rejecting else CHECKED
        step = next(steps_of(drafted[yielded : yielded + checked + 1], checked=checked))
        accepted += step - 1
        steps.append(min(step, tokens - yielded))
        yielded += step
    return steps, accepted


def _merged(chunks: Sequence[int], share: float, generator: random.Random) -> tuple[int, ...]:
    merged: list[int] = []
    for tokens in chunks:
        if merged and generator.random() < share:
            merged[-1] += tokens
        else:
            merged.append(tokens)
    return tuple(merged)


@cache
def rejecting_share(loss: float) -> float:
    """Return the share of steps that have to accept nothing so that a fault loses this share."""
    low, high = 0.0, 1.0
    for _ in range(10):
        share = (low + high) / 2
        allowed = taken = 0.0
        for seed in range(20):
            run = PlantedRun(Cell(loss=loss, prompts=PER_ROUND * ROUNDS), seed, share).run()
            allowed += sum(steps.steps for steps in run.allowed_steps[0].variants[0].requests)
            records = (record for block in run.blocks for record in block.requests)
            taken += sum(record.verification_steps or 0 for record in records)
        low, high = (share, high) if 1 - allowed / taken < loss else (low, share)
    return share


def judged(cell: Cell, seed: int) -> EngineLoss:
    """Simulate a run, and return what the deployed rule says of it."""
    rejecting = rejecting_share(cell.loss) if cell.loss else 0.0
    (loss,) = engine_losses_of(PlantedRun(cell, seed, rejecting).run())
    return loss


def _reading(name: str, hits: Sequence[bool]) -> Reading:
    return Reading(
        id=name,
        prompt_class=NAME,
        case=CASE,
        prompt_id=name,
        hits="".join("1" if hit else "0" for hit in hits),
        log_likelihood=0.0,
        entropy=0.0,
        variance=0.0,
    )


def _request(
    name: str, prompt: int, chunks: Sequence[int], counts: Mapping[str, Any]
) -> RequestRecord:
    return RequestRecord(
        error_code=None,
        error_msg="",
        number_input_tokens=100 * (1 + prompt),
        number_output_tokens=sum(chunks),
        first_chunk_tokens=chunks[0],
        request_id=name,
        prompt_id=f"{prompt}",
        started_at_unix_s=START_UNIX_S,
        chunks=len(chunks),
        usage_source="every_chunk",
        **counts,
    )


def _block(number: int, requests: Sequence[RequestRecord]) -> BlockResult:
    return BlockResult(
        run_id=NAME,
        experiment=NAME,
        variant=NAME,
        prompt_class=NAME,
        case=CASE,
        round=number,
        block=number,
        model=NAME,
        load=LOAD,
        started_at_unix_s=START_UNIX_S,
        ended_at_unix_s=START_UNIX_S,
        warmup_requests=0,
        max_tokens_per_step=CHECKED + 1,
        speculation=None,
        server=None,
        requests=tuple(requests),
    )


def _result() -> RunResult:
    return RunResult(
        run_id=NAME,
        experiment=NAME,
        status="complete",
        reason="",
        started_at_unix_s=START_UNIX_S,
        ended_at_unix_s=START_UNIX_S,
        variants=(NAME,),
        max_tokens_per_step={NAME: CHECKED + 1},
    )


def _row(cell: Cell, losses: Sequence[EngineLoss]) -> Sequence[str]:
    verdicts = Counter(loss.verdict for loss in losses)
    shares = (verdicts[verdict] / len(losses) for verdict in EngineVerdict)
    places = fmean(bool(loss.places) for loss in losses)
    positions = fmean(bool(loss.positions) for loss in losses)
    return (
        *(f"{cell.loss:.0%}", cell.where, "sampled" if cell.sampled else "greedy"),
        *(str(cell.prompts), f"{cell.near_ties:.0%}", f"{cell.merged:.0%}"),
        "per request" if cell.counts else "chunks",
        f"{1 - fmean(loss.ratio.value for loss in losses):.2%}",
        *(f"{share:.3f}" for share in (*shares, places, positions)),
    )


def main() -> None:
    """Print the table of `CELLS`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="runs of each cell (%(default)s)")
    runs = parser.parse_args().runs
    settings = "planted", "where", "outputs", "prompts", "near ties", "merged", "counts"
    table = Table(*settings, "mean loss", *EngineVerdict, "a place", "a position", box=None)
    for cell in CELLS:
        table.add_row(*_row(cell, [judged(cell, seed) for seed in range(runs)]))
    console = Console(width=200)
    console.print(table)
    console.print(f"{runs} runs of 64 requests a cell.")


if __name__ == "__main__":
    main()
