"""What a look at a winner that serves asks, and what its answers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from draftworth.analysis.drift import LOOKS_NEEDED, LOOKS_TOGETHER, mean_margin
from draftworth.measuring.client import Measured
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.live import LiveClass, LiveProbe
from draftworth.records.prompts import Prompt
from draftworth.records.results import RequestRecord, SpeculationCounters
from draftworth.untrusted import one_line


def prompts_in_turn(spec: RunSpec) -> dict[str, list[Prompt]]:
    """Of each class, one of each case and then the next of each: what follows another differs."""
    found: dict[str, list[Prompt]] = {}
    longest = max(len(case.prompts) for case in spec.cases)
    for place in range(longest):
        for case in spec.cases:
            found.setdefault(case.prompt_class, []).append(case.prompts[place % len(case.prompts)])
    return found


def class_of(name: str, measured: Measured) -> LiveClass:
    """One request is its class."""
    record = measured.record
    return LiveClass(
        prompt_class=name,
        requests=1,
        failed=int(record.failed),
        ttft_s=record.ttft_s,
        itl_s=record.inter_token_latency_s,
        e2e_s=record.end_to_end_latency_s,
        tokens_per_step=record.tokens_per_verification or record.tokens_per_step,
    )


def by_others(counted: SpeculationCounters | None, own: Iterable[RequestRecord]) -> float | None:
    """Tokens a step of everybody's requests but the probe's own, by the server's counters.

    The probe's are one of each class, and so of another mix than the traffic. Of others there must
    be as many steps at least: what the chunks show of the probe's own is not exact to the step.
    """
    if counted is None:
        return None
    known = [_steps_and_accepted(record) for record in own]
    own_steps = sum(steps for steps, _ in known)
    steps = counted.drafts - own_steps
    accepted = max(0, counted.accepted_tokens - sum(tokens for _, tokens in known))
    # Each step yields a token of the target's own, and the accepted ones.
    return 1 + accepted / steps if steps >= max(1, own_steps) else None


def _steps_and_accepted(record: RequestRecord) -> tuple[int, int]:
    """Of one request: by the server where it says so, else by its chunks."""
    if record.verification_steps is not None and record.accepted_tokens is not None:
        return record.verification_steps, record.accepted_tokens
    steps = max(0, record.chunks - 1)
    after_first = (record.number_output_tokens or 0) - (record.first_chunk_tokens or 1)
    return steps, max(0, after_first - steps)


def acceptance(counted: SpeculationCounters | None) -> float | None:
    """Accepted / drafted tokens; None: nothing is drafted, or nobody counts."""
    if counted is None or not counted.draft_tokens:
        return None
    return counted.accepted_tokens / counted.draft_tokens


def by_chunks(classes: Sequence[LiveClass], weights: Mapping[str, float]) -> float | None:
    """Of the traffic mix: all its tokens by all their steps. None where a class that it has is
    missing: without it, it would be the figure of another mix."""
    known = {c.prompt_class: c.tokens_per_step for c in classes}
    parts = {name: weight for name, weight in weights.items() if weight}
    steps = [weight / found for name, weight in parts.items() if (found := known.get(name))]
    if not steps or len(steps) < len(parts):
        return None
    return sum(parts.values()) / sum(steps)


def margins(probes: Sequence[LiveProbe]) -> list[float]:
    """Of the last looks that have one: a look without a figure says nothing of the traffic."""
    return [margin for probe in probes[-2 * LOOKS_NEEDED :] if (margin := probe.margin)]


def line(probe: LiveProbe, measured: Mapping[str, Measured]) -> str:
    """A look in one line."""
    parts = []
    for c in probe.classes:
        record = measured[c.prompt_class].record
        shown = "no time per token" if c.itl_s is None else f"{c.itl_s * 1e3:.2f} ms/token"
        if record.failed:
            shown = f"failed: {record.error_code}: {one_line(record.error_msg, characters=200)}"
        parts.append(f"{c.prompt_class} {shown}")
    if probe.tokens_per_step is not None:
        parts.append(f"{probe.tokens_per_step:.2f} tokens a step by {probe.source}")
    if probe.margin is not None:
        parts.append(f"{probe.margin:.2f} x break-even")
    return f"look {probe.number} at {probe.variant}: {', '.join(parts)}"


def turn(probe: LiveProbe, found: Sequence[float]) -> str:
    """That it drifts now, or does no more; found: the looks' margins."""
    if not probe.drifted:
        return f"{probe.variant} is well again: it is above break-even, no drift any more"
    return (
        f"DRIFT: {probe.variant} yields {mean_margin(found[-LOOKS_TOGETHER:]):.2f} of the tokens "
        "a step that it needs to cost less than decoding without a draft: the traffic is another "
        "one than what was measured; next: measure with today's prompts"
    )
