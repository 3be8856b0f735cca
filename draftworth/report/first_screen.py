"""What a reader sees first: what was measured, from what to what it goes, and the verdicts."""

from collections.abc import Iterator
from datetime import UTC, datetime

from draftworth.analysis.pairing import Traffic
from draftworth.analysis.speeds import speed_of
from draftworth.decision.by_class import ByClass
from draftworth.decision.facts import RunFacts, weights_of
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY, OUTPUT_THROUGHPUT, Metric
from draftworth.records.results import AS_SHIPPED
from draftworth.records.servers import ServingFacts
from draftworth.report import words
from draftworth.report.document import Card, Speed


def setting(facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of what was measured: model, servers, hardware, date and load."""
    result, serving = facts.run.result, facts.run.result.serving
    if facts.run.models:
        yield "model", ", ".join(facts.run.models)
    if result.variants:
        yield "servers", _servers(facts, serving)
    if serving and (hardware := hardware_words(serving)):
        yield "hardware", hardware
    yield "date", f"{datetime.fromtimestamp(result.started_at_unix_s, UTC):%Y-%m-%d}"
    if loads := sorted({group.group.load for group in facts.groups}, key=lambda load: load.order):
        yield "load", words.loads_in_words([load.label for load in loads])


def _servers(facts: RunFacts, serving: ServingFacts | None) -> str:
    baseline, variants = facts.run.result.baseline, facts.run.result.variants
    compared = ", ".join(name for name in variants if name != baseline)
    names = f"{compared} against {baseline}" if compared else ", ".join(variants)
    return f"{names}, on vLLM {serving.vllm_version}" if serving else names


def hardware_words(serving: ServingFacts) -> str:
    """Return on what the servers ran, as `trn2.48xlarge, 8 devices each`; empty: not recorded."""
    if serving.instance_type is None:
        return ""
    devices = serving.slot_devices
    each = f", {devices} device{'' if devices == 1 else 's'} for each server" if devices else ""
    return f"{serving.instance_type}{each}"


def speeds(facts: RunFacts) -> Iterator[Speed]:
    """Yield from what to what the server's speed goes, where the decision is about it.

    Of a run with one server, yield its speed alone.
    """
    decision, baseline = facts.decision, facts.run.result.baseline
    traffic, variants = _decided_traffic(facts), [baseline]
    if decision.comparison:
        variants = [decision.comparison.baseline, decision.comparison.variant]
    if traffic is None:
        return
    of_variants = [speed_of(facts.run.blocks, traffic, name) for name in variants]
    where = f"{' → '.join(variants)}, {_place(facts, traffic)}"
    itls = [speed.inter_token_latency_s for speed in of_variants]
    rates = [speed.output_throughput_token_per_s for speed in of_variants]
    yield from _speed(INTER_TOKEN_LATENCY, itls, "between two tokens of an answer", where)
    yield from _speed(OUTPUT_THROUGHPUT, rates, "from the whole server", where)


def _decided_traffic(facts: RunFacts) -> Traffic | None:
    """Return the traffic that the decision is about; None if nothing was measured.

    If the decision is to serve by class, it is that of the classes that the variant is to serve.
    """
    decision = facts.decision
    if decision.comparison is None:
        load = next((group.group.load for group in facts.groups), None)
        return Traffic(weights=weights_of(facts.run), load=load) if load else None
    traffic = decision.comparison.traffic
    if decision.serves_by_class and decision.by_class:
        served = {name: traffic.weights[name] for name in decision.by_class.classes}
        total = sum(served.values())
        weights = {name: weight / total for name, weight in served.items()}
        return Traffic(weights=weights, load=traffic.load)
    return traffic


def _speed(metric: Metric, values: list[float | None], meaning: str, where: str) -> Iterator[Speed]:
    scaled = [value * metric.unit.scale for value in values if value is not None]
    if len(scaled) == len(values):
        texts = tuple(f"{value:.{_digits(value)}f}" for value in scaled)
        yield Speed(unit=_UNITS[metric], values=texts, meaning=meaning, where=where)


_UNITS = {INTER_TOKEN_LATENCY: "ms per token", OUTPUT_THROUGHPUT: "tokens per second"}


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2


def cards(facts: RunFacts) -> Iterator[Card]:
    """Yield a card for each verdict, the one that the decision is about first."""
    decision, search = facts.decision, facts.run.search
    if decision.serves_by_class and decision.by_class:
        yield _by_class_card(decision.by_class)
    compared = [
        c
        for c in facts.comparisons
        if c.variant != AS_SHIPPED and (not search or c.variant == search.best)
    ]
    for c in sorted(compared, key=lambda c: not is_decided_by(facts, c.traffic, c.variant)):
        ratio = c.cost_ratio
        yield Card(
            label=f"{_place(facts, c.traffic)}, {c.name}",
            judgement=c.judgement,
            tone=c.judgement.tone,
            value=words.cost_phrase(ratio.value, ratio.low, ratio.high) if ratio else "",
        )


def _place(facts: RunFacts, traffic: Traffic) -> str:
    """Return the traffic in words, with its load if the run has several."""
    name = " and ".join(traffic.weights) if _is_part(facts, traffic) else traffic.name
    return f"{name}{at_load(facts, traffic)}"


def at_load(facts: RunFacts, traffic: Traffic) -> str:
    """Return the traffic's load as ` at 4 requests at a time`; empty if the run has one load."""
    several = len({group.group.load for group in facts.groups}) > 1
    return f" at {traffic.load.words}" if several else ""


def _is_part(facts: RunFacts, traffic: Traffic) -> bool:
    """Return whether the traffic is some of the run's classes, and neither one nor all."""
    return 1 < len(traffic.weights) < len(weights_of(facts.run))


def is_decided_by(facts: RunFacts, traffic: Traffic, variant: str) -> bool:
    """Return whether the decision is about this comparison of a variant with the run's baseline."""
    decided = facts.decision.comparison
    return decided is not None and (decided.traffic, decided.variant) == (traffic, variant)


def _by_class_card(split: ByClass) -> Card:
    ratio, variant = split.ratio_to_alone, split.comparison.variant
    return Card(
        label=f"{' and '.join(split.classes)} with {variant}, the rest without speculation",
        judgement=split.judgement,
        tone=split.judgement.tone,
        value=words.cost_phrase(ratio.value, ratio.low, ratio.high),
        note=_than_what(split),
    )


def _than_what(split: ByClass) -> str:
    """Return what serving by class is compared with: also the baseline, as the speeds are."""
    if split.alone == split.comparison.baseline:
        return "than with the baseline for all"
    ratio = split.cost_ratio
    cost = words.cost_phrase(ratio.value, ratio.low, ratio.high)
    return f"than with the variant for all; {cost} than with the baseline for all"
