"""Kubernetes objects of experiments for tests; those of shipped ones are made once per test run."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from charts.benchmark_charts import benchmark_charts
from charts.bindings import Bindings
from charts.run_spec_file import run_spec_file
from draftworth.planning.resolved import ResolvedNeuron
from tests.support.experiments import changed, resolved
from tests.support.shared import shared_json

EXPERIMENTS = ("qwen3-32b", "llama-3.1-8b-eagle3", "llama-3.1-8b-dflash", "qwen3-32b-search")
CHARTS = (
    "foundation",
    "storage",
    "staging",
    "graph-scripts",
    "serving",
    "load-generator",
    "canary",
)

BINDINGS = Bindings(
    region="us-east-2",
    checkpoints_bucket="example-checkpoints",
    artifacts_bucket="example-artifacts",
    results_bucket="example-results",
    # `render` fills in both for each experiment.
    run_spec_url="",
    run_spec_sha256="",
    llmperf_image="111122223333.dkr.ecr.us-east-2.amazonaws.com/llmperf:1.0.0",
)

Object = dict[str, Any]


@cache
def rendered(name: str = "qwen3-32b") -> Mapping[str, list[Object]]:
    """Return a shipped experiment's objects, {chart id: objects}.

    All tests share them, so a test that changes an object must copy it first.
    """
    charts: dict[str, list[Object]] = shared_json(f"charts-{name}", lambda: render(resolved(name)))
    return charts


@cache
def rendered_with(**values: int) -> Mapping[str, list[Object]]:
    """Return the objects of qwen3-32b with these top-level values in its file; tests share them."""
    name = "-".join(f"{key}-{value}" for key, value in sorted(values.items()))
    charts: dict[str, list[Object]] = shared_json(
        f"charts-changed-{name}", lambda: render(changed(resolved(), **values))
    )
    return charts


def render(experiment: ResolvedNeuron, bindings: Bindings = BINDINGS) -> dict[str, list[Object]]:
    """Render the objects of an experiment that is not shipped, {chart id: objects}."""
    file = run_spec_file(experiment)
    bound = dataclasses.replace(
        bindings,
        run_spec_url=f"s3://{bindings.results_bucket}/run-specifications/{file.sha256}.json",
        run_spec_sha256=file.sha256,
    )
    charts = benchmark_charts(experiment, bound)
    return {chart.node.id: chart.to_json() for chart in charts}


def charts_of(
    experiment: ResolvedNeuron | None = None, bindings: Bindings = BINDINGS
) -> Mapping[str, list[Object]]:
    """Return an experiment's objects, {chart id: objects}.

    Without arguments they are qwen3-32b's, which all tests share; else they are rendered anew.
    """
    if experiment is None and bindings is BINDINGS:
        return rendered()
    return render(experiment or resolved(), bindings)


def all_objects(name: str = "qwen3-32b") -> list[Object]:
    return [item for objects in rendered(name).values() for item in objects]


def of_kind(kind: str, name: str = "qwen3-32b") -> list[Object]:
    objects = [item for item in all_objects(name) if item["kind"] == kind]
    assert objects, f"no {kind} among the objects: the test would prove nothing"
    return objects


def homes(objects: Iterable[Object]) -> list[Object]:
    """Return the Deployments that have a replica when they are applied: one for each variant."""
    deployments = [o for o in objects if o["kind"] == "Deployment" and o["spec"]["replicas"]]
    assert deployments
    return deployments


def load_generator(name: str = "qwen3-32b") -> Object:
    """Return the measuring Job of a shipped experiment."""
    (job,) = [
        job
        for job in of_kind("Job", name)
        if job["metadata"]["labels"]["app.kubernetes.io/component"] == "load-generator"
    ]
    return job


def pod_of(job: Object) -> Object:
    pod: Object = job["spec"]["template"]["spec"]
    return pod


def container_of(job: Object) -> Object:
    (container,) = pod_of(job)["containers"]
    assert isinstance(container, dict)
    return container


def what_would_cost(job: Object) -> list[str]:
    """Return how a Job's pod could run on, or start, an accelerator node; empty if it cannot."""
    pod = pod_of(job)
    ways = ["tolerates a taint"] if pod.get("tolerations") else []
    ways += ["claims devices"] if pod.get("resourceClaims") else []
    cheap = pod.get("nodeSelector") == {"draftworth/node-group": "cpu"}
    return ways + ([] if cheap else ["any node"])


def pod_templates(name: str = "qwen3-32b") -> Iterator[Object]:
    """Yield the pod templates of a shipped experiment's Deployments and Jobs."""
    for item in all_objects(name):
        if "template" in item.get("spec", {}):
            yield item["spec"]["template"]


def kinds(value: Any, *place: str) -> Iterator[tuple[str, ...]]:
    """Yield (key, ..., key, type's name) of each value in a resource, without indexes of lists.

    A value in capitals, like `ON_DEMAND`, is yielded itself and not as its type. If two resources
    yield the same tuples, they differ in names and numbers alone.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from kinds(item, *place, key)
    elif isinstance(value, list):
        for item in value:
            yield from kinds(item, *place)
    else:
        yield (*place, value if str(value).isupper() else type(value).__name__)


def tokens(number: int, fingerprint: str) -> Bindings:
    """Return Bindings of CDK tokens, as stacks have them; number: the number of the first token.

    fingerprint: the image's, which a stack gives because a token says nothing about the image.
    """
    return Bindings(
        region="us-east-2",
        checkpoints_bucket=f"${{Token[TOKEN.{number}]}}",
        artifacts_bucket=f"${{Token[TOKEN.{number + 1}]}}",
        results_bucket=f"${{Token[TOKEN.{number + 2}]}}",
        run_spec_url="",
        run_spec_sha256="",
        llmperf_image=f"${{Token[TOKEN.{number + 3}]}}",
        llmperf_image_fingerprint=fingerprint,
    )
