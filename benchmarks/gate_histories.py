"""How often `draftworth gate` is right, over histories whose true change of the cost is planted.

    python -m benchmarks.gate_histories [--histories 200]

A history is some runs before a change and one run after it, each after a start of the server. The
change multiplies the cost of a token, for each prompt by a factor of its own around the planted
one. The runs are those of `benchmarks/planted.py`; the deployed `upgrade_gate.gate` judges them,
with a margin of 3%. docs/appendix/calibration.md has the table.
"""

import argparse
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.planted import LOADS, VARIANT, Cell, PlantedRun, planted_spec
from draftworth.analysis.pooling import pooled
from draftworth.decision.upgrade_gate import Gate, Word, gate
from draftworth.measuring.run_specification import Sampling
from draftworth.measuring.schedule import Round, stages
from draftworth.records.results import BlockResult, RequestRecord, RunResult
from draftworth.records.run_folder import Run

MARGIN = 0.03
PROMPTS = 32
_EXPERIMENT = "measure"


@dataclass(frozen=True, kw_only=True)
class History:
    """The settings of planted histories.

    change: the cost of a token after the change / before it, in the mean over prompts.
    before, after: the number of runs of each side; each is a start. rounds: of each run.
    between: standard deviation of the logarithm of a start's factor on cost.
    block_error: the same of a block's. by_prompt: the same of a prompt's own factor on the change.
    """

    change: float
    before: int = 8
    after: int = 1
    rounds: int = 4
    between: float = 0.005
    block_error: float = 0.01
    by_prompt: float = 0.01

    def runs(self, seed: int) -> tuple[Run, ...]:
        """Return the runs in the order of time; those after the change are the last `after`."""
        cell = Cell(
            cost_ratio=1.0,
            prompts=PROMPTS,
            repetitions=self.before + self.after,
            between=self.between,
            block_error=self.block_error,
            sampling=Sampling(
                requests_per_round=PROMPTS,
                min_requests=PROMPTS,
                max_requests=PROMPTS * self.rounds * (self.before + self.after),
                target_interval_width=1.0,
                warmup_requests=0,
            ),
        )
        planted = PlantedRun(cell, seed)
        for stage in stages(planted_spec(cell)):
            for number in range(1, self.rounds + 1):
                classes = frozenset(cell.traffic)
                planted.add(Round(stage=stage, load=LOADS[0], number=number, classes=classes))
        factors = _Factors(self, seed)
        blocks = [factors.changed(block) for block in planted.blocks if block.variant == VARIANT]
        return tuple(
            _run(number, [block for block in blocks if block.repetition == number])
            for number in range(1, self.before + self.after + 1)
        )


class _Factors:
    """The factors by which the change multiplies each prompt's cost, drawn when first asked for."""

    def __init__(self, history: History, seed: int) -> None:
        self._history = history
        self._generator = random.Random(f"change {seed}")  # noqa: S311
        self._by_prompt: dict[str, float] = {}

    def changed(self, block: BlockResult) -> BlockResult:
        if block.repetition <= self._history.before:
            return block
        return replace(block, requests=tuple(map(self._changed, block.requests)))

    def _changed(self, record: RequestRecord) -> RequestRecord:
        if record.prompt_id not in self._by_prompt:
            error = self._generator.gauss(0, self._history.by_prompt)
            self._by_prompt[record.prompt_id] = self._history.change * math.exp(error)
        e2e_s = record.end_to_end_latency_s or 0.0
        return replace(record, end_to_end_latency_s=e2e_s * self._by_prompt[record.prompt_id])


def _run(number: int, blocks: Sequence[BlockResult]) -> Run:
    run_id = f"night-{number}"
    named = tuple(
        replace(block, run_id=run_id, experiment=_EXPERIMENT, repetition=1) for block in blocks
    )
    result = RunResult(
        run_id=run_id,
        experiment=_EXPERIMENT,
        status="complete",
        reason="",
        started_at_unix_s=named[0].started_at_unix_s + number * 86_400,
        ended_at_unix_s=named[0].started_at_unix_s + number * 86_400 + 600,
        variants=(VARIANT,),
        baseline=VARIANT,
        blocks=tuple(block.stem for block in named),
    )
    return Run(result=result, blocks=named)


def judged(history: History, seed: int) -> Gate:
    """Return the deployed gate's answer to one planted history."""

    runs = history.runs(seed)
    before, after = runs[: history.before], runs[history.before :]
    return gate(pooled(before), pooled(after), margin=MARGIN)


WORLDS = {
    "starts 0.2%, 4 runs": History(change=1.0, before=4, between=0.002),
    "starts 0.5%, 4 runs": History(change=1.0, before=4),
    "starts 0.5%, 12 runs": History(change=1.0, before=12),
    "starts 0.5%, 12 runs, 3 after": History(change=1.0, before=12, after=3),
    "starts 1%, 12 runs, 3 after": History(change=1.0, before=12, after=3, between=0.01),
    "prompts change by 5%, 12 runs, 3 after": History(
        change=1.0, before=12, after=3, by_prompt=0.05
    ),
}
CHANGES = (1.0, 1.03, 1.05, 1.08)


def rows(histories: int) -> Iterator[tuple[str, float, Counter[Word]]]:
    """Yield each world and change with how often each word was the answer."""
    for name, world in WORLDS.items():
        for change in CHANGES:
            history = replace(world, change=change)
            yield name, change, Counter(judged(history, seed).word for seed in range(histories))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--histories", type=int, default=200)
    histories = parser.parse_args().histories
    print(f"{'history':40} {'change':>7} {'held':>6} {'not held':>9} {'undecided':>10}")
    for name, change, words in rows(histories):
        shares = {word: words[word] / histories for word in Word}
        print(
            f"{name:40} {change:7.2f} {shares[Word.HELD]:6.3f} {shares[Word.NOT_HELD]:9.3f} "
            f"{shares[Word.UNDECIDED]:10.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
