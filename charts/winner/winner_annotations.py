"""Annotations of the objects that `manifests --winner` writes: what was measured, and when.

Each measured figure, such as the tokens per step, has one annotation, whose name says the unit. The
annotation's text has one number for each prompt class or traffic mix at each load; that of the
break-even has one number for each load.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from charts.winner.measured_winner import MeasuredWinner
from draftworth.analysis.statistics import Estimate
from draftworth.decision.verdict import Comparison
from draftworth.decision.winner import Winner, WinnerFigures
from draftworth.planning.resolved import NeuronVariant, ResolvedExperiment
from draftworth.untrusted import one_line

PREFIX = "draftworth/"
NOT_MEASURED = "not measured"
# Kubernetes limits all annotations of an object together to 256 KiB.
_HEADLINE_CHARACTERS = 2000


def annotations_of(
    measured: MeasuredWinner, experiment: ResolvedExperiment, image: str
) -> dict[str, str]:
    """Return the annotations that say what was measured, when and how, as {key: value}.

    image: the image of the winner's server, which one of the annotations names.
    """
    return {PREFIX + name: text for name, text in _named(measured, experiment, image)}


def _named(
    measured: MeasuredWinner, experiment: ResolvedExperiment, image: str
) -> Iterator[tuple[str, str]]:
    winner, result, release = measured.winner, measured.result, experiment.spec.release_facts
    yield "winner", winner.variant if winner.speculates else f"{winner.variant} (no speculation)"
    if winner.classes:
        yield "for-classes", ", ".join(one_line(name) for name in winner.classes)
    yield "verdict", one_line(measured.headline, characters=_HEADLINE_CHARACTERS)
    yield "experiment", experiment.name
    yield "run-id", one_line(result.run_id)
    yield "measured-at", f"{_utc(result.started_at_unix_s)} to {_utc(result.ended_at_unix_s)}"
    yield "image", image
    served = f"release {experiment.spec.release} (vLLM {release.vllm_version})"
    yield "flags-from", f"variant {winner.variant} on {served}, dialect {release.dialect}"
    if isinstance(measured.variant, NeuronVariant):
        yield "artifact-key", measured.variant.artifact_key
    yield from _figures(winner)
    if winner.speculates:
        yield from _reach(winner)
    else:
        yield "others", "; ".join(_other(c) for c in winner.judged)


def _figures(winner: Winner) -> Iterator[tuple[str, str]]:
    yield "itl-seconds", _each(winner.figures, lambda f: _number(f.itl_s))
    yield "ttft-seconds", _each(winner.figures, lambda f: _number(f.ttft_s))
    yield "tokens-per-step", _each(winner.figures, lambda f: _number(f.tokens_per_step))
    if winner.speculates:
        yield "cost-ratio", _each(winner.figures, lambda f: ratio_words(f.cost_ratio))
        yield "itl-speedup", _each(winner.figures, lambda f: ratio_words(f.itl_speedup))
        yield (
            "break-even-tokens-per-step",
            "; ".join(
                f"{f.load.label}: {ratio_words(f.break_even_tokens_per_step)}"
                for f in winner.decisive
            ),
        )
    yield "loads-measured", ", ".join(f.load.label for f in winner.decisive)
    longest = winner.longest_context_tokens
    yield "longest-context-tokens", NOT_MEASURED if longest is None else str(longest)


def _reach(winner: Winner) -> Iterator[tuple[str, str]]:
    if winner.takes_up_to:
        yield "within-limits-up-to", ", ".join(load.label for load in winner.takes_up_to)
        return
    cheaper = ", ".join(load.label for load in winner.cheaper_at)
    yield "cheaper-at", f"{winner.traffic}: {cheaper}"
    reached = "; ".join(
        f"{concurrency}" if length is None else f"{concurrency} with {length} input tokens"
        for length, concurrency in winner.cheaper_up_to.items()
    )
    yield "cheaper-up-to-concurrency", reached or "not at the lowest concurrency measured"


def _each(figures: Sequence[WinnerFigures], text: Callable[[WinnerFigures], str]) -> str:
    return "; ".join(f"{f.label}: {text(f)}" for f in figures)


def _number(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.4g}"


def ratio_words(ratio: Estimate | None) -> str:
    """Return an estimate with its 95% interval in brackets; `not measured` for None."""
    if ratio is None:
        return NOT_MEASURED
    interval = "no interval"
    if ratio.low is not None and ratio.high is not None:
        interval = f"{ratio.low:.3f} to {ratio.high:.3f}"
    return f"{ratio.value:.3f} ({interval})"


def _other(c: Comparison) -> str:
    return f"{c.variant}, {c.traffic.label}: {c.judgement}, cost ratio {ratio_words(c.cost_ratio)}"


def _utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
