"""Variants: one baseline, names and decodings that differ, windows that speculate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from draftworth.errors import Problem, suggestion
from draftworth.experiment.catalog import NO_SPECULATION, catalog
from draftworth.experiment.model import Baseline, Experiment, speculative_by_index
from draftworth.experiment.naming import dns_label


def _exactly_one_baseline(experiment: Experiment) -> Iterator[Problem]:
    names = [v.name for v in experiment.variants if isinstance(v, Baseline)]
    if len(names) != 1:
        yield Problem(
            key=("variants",),
            given=f"{len(names)} variants with method none"
            + (f" ({', '.join(names)})" if names else ""),
            allowed="exactly one variant with method none",
            reason="every speedup is a ratio to the one baseline",
        )


def _unique_variant_names(experiment: Experiment) -> Iterator[Problem]:
    counts = Counter(dns_label(v.name) for v in experiment.variants)
    for index, variant in enumerate(experiment.variants):
        if counts[dns_label(variant.name)] > 1:
            yield Problem(
                key=("variants", index, "name"),
                given=f'"{variant.name}"',
                allowed="names that stay unique when dots become hyphens",
                reason="a variant's name is the name of its Kubernetes service and of its metrics",
            )


def _methods_the_release_serves(experiment: Experiment) -> Iterator[Problem]:
    served = experiment.release_facts.methods
    for index, variant in speculative_by_index(experiment):
        if variant.method in served:
            continue
        if variant.method not in catalog().methods:
            yield _unknown_method(index, variant.method)
            continue
        able = catalog().releases_that_serve(variant.method)
        yield Problem(
            key=("variants", index, "method"),
            given=f"{variant.method} on release {experiment.release}",
            allowed=", ".join([NO_SPECULATION, *served]) + f" on {experiment.release}; "
            f"{variant.method} needs release {' or '.join(able)}",
            reason=f"the image of {experiment.release} (vLLM "
            f"{experiment.release_facts.vllm_version}) cannot serve this method",
        )


def _unknown_method(index: int, method: str) -> Problem:
    known = [NO_SPECULATION, *catalog().methods]
    return Problem(
        key=("variants", index, "method"),
        given=f'"{method}"',
        allowed=", ".join(known),
        reason="the method says how tokens are drafted" + suggestion(method, known),
    )


def _window_drafts_something(experiment: Experiment) -> Iterator[Problem]:
    for index, variant in speculative_by_index(experiment):
        facts = experiment.release_facts.methods.get(variant.method)
        if facts and variant.window < facts.min_window:
            yield Problem(
                key=("variants", index, "window"),
                given=str(variant.window),
                allowed=f"{facts.min_window} or more",
                reason=f"{variant.method} on {experiment.release} checks window - 1 drafts and "
                "yields at most window tokens a step: a window of 1 speculates nothing",
            )


def _window_fits_the_output(experiment: Experiment) -> Iterator[Problem]:
    for index, variant in speculative_by_index(experiment):
        if variant.window >= experiment.workload.output_tokens:
            yield Problem(
                key=("variants", index, "window"),
                given=f"{variant.window} with workload.output_tokens "
                f"{experiment.workload.output_tokens}",
                allowed=f"less than {experiment.workload.output_tokens}",
                reason="an output that ends within one step has no inter-token latency",
            )


def _distinct_variants(experiment: Experiment) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for index, variant in speculative_by_index(experiment):
        identity = variant.model_dump_json(exclude={"name"})
        if identity in seen:
            yield Problem(
                key=("variants", index),
                given=f'"{variant.name}", which decodes exactly as "{seen[identity]}"',
                allowed="variants that differ in method, draft or window",
                reason="the same variant twice costs a second slot and answers nothing",
            )
        seen.setdefault(identity, variant.name)


COMMON = (
    _exactly_one_baseline,
    _unique_variant_names,
    _methods_the_release_serves,
    _window_drafts_something,
    _window_fits_the_output,
    _distinct_variants,
)
