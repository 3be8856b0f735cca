"""What a run that was measured says of durations and speeds, in the place of assumptions.

It has them of its own release, serving settings and load: whoever plans another run with them is
told from where each one is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftworth.analysis.summary import groups_of, summarize
from draftworth.errors import UserInputError
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, TTFT, Metric
from draftworth.planning.assumptions import Assumption, Assumptions
from draftworth.records.reading import Run
from draftworth.records.results import AS_SHIPPED, CONTROL, ServerStart
from draftworth.untrusted import one_line

LEARN_OPTION = "--learn"
# vLLM Neuron counts a graph that it found in its cache as compiled, which takes it seconds.
_CACHED_BELOW_SECONDS = 60.0

# An assumption's name, the values that a run has for it, and what they are.
Found = tuple[str, Sequence[float | None], str]


def learnt(run: Run, assumed: Assumptions, *, model: str) -> dict[str, Assumption]:
    """By name what the run has, from the lowest to the highest; `model` is what will be served.

    Raises:
        UserInputError: the run measured nothing, or another model.
    """
    run_id = one_line(run.result.run_id, characters=80)
    _check(run, run_id, model)
    found: dict[str, Assumption] = {}
    for name, maybe, what in (*_speeds(run), *_starts([*run.result.server_starts.values()])):
        values = [value for value in maybe if value is not None]
        source = f"{run_id}: {what}"
        if values and (row := assumption_of(assumed.named(name), values, source)):
            found[name] = row
    return found


def _check(run: Run, run_id: str, model: str) -> None:
    measured = sorted({block.model for block in run.blocks})
    if measured != [model]:
        given = one_line(", ".join(measured), characters=200) or "nothing"
        raise UserInputError(
            f"{LEARN_OPTION}: given run {run_id}, which measured {given}, allowed: a run of "
            f"{model}, the experiment's target: the speed of another model says nothing of this one"
        )


def assumption_of(replaced: Assumption, values: Sequence[float], source: str) -> Assumption | None:
    """In three digits; None for values that cannot be, of which the assumption says more."""
    low, high = (float(f"{value:.3g}") for value in (min(values), max(values)))
    try:
        return Assumption(low=low, high=high, unit=replaced.unit, source=source)
    except ValueError:
        return None


def _speeds(run: Run) -> Iterator[Found]:
    result, groups = run.result, groups_of(run.blocks)
    plain = result.baseline, AS_SHIPPED, CONTROL
    drafted = [v for v in result.variants if v not in plain]

    def medians(metric: Metric, *variants: str) -> list[float | None]:
        found = (summarize(run.blocks, g, v).value(metric) for g in groups for v in variants)
        return [value if value is None else value * metric.unit.scale for value in found]

    what = "medians, lowest to highest class and load"
    yield "baseline_ms_per_token", medians(INTER_TOKEN_LATENCY, result.baseline), what
    yield "speculative_ms_per_token", medians(INTER_TOKEN_LATENCY, *drafted), what
    ttft = [ms and ms / 1000 for ms in medians(TTFT, *result.variants)]
    yield "first_token_seconds", ttft, f"TTFT, {what}"
    overhead = result.time.idle_s / len(run.blocks)
    yield "block_overhead_seconds", [overhead], "its idle time / its blocks"


def _starts(starts: Sequence[ServerStart]) -> Iterator[Found]:
    """Of servers that say how they started."""
    compiled = [s.compilation_s for s in starts if (s.compilation_s or 0) >= _CACHED_BELOW_SECONDS]
    what = "by the servers' gauges"
    yield "compile_minutes", [s and s / 60 for s in compiled], f"compilation, {what}"
    speeds = [s.load_bytes * 8e-9 / s.load_s for s in starts if s.load_bytes and s.load_s]
    yield "load_gbit_per_s", speeds, f"weights to the devices, {what}"
    rest = (
        s.startup_s - s.compilation_s - s.load_s
        for s in starts
        if s.startup_s is not None and s.compilation_s is not None and s.load_s is not None
    )
    minutes = [seconds / 60 for seconds in rest if seconds >= 0]
    yield "warm_up_minutes", minutes, f"start without compilation and weights, {what}"
