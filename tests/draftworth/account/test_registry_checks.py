"""The driver's chart and the images are asked for where a deploy and its nodes pull them."""

from typing import Any

import pytest

from draftworth.account.checks import registry_checks
from draftworth.experiment import aws
from draftworth.experiment.model import NeuronExperiment
from tests.draftworth.account import stubs
from tests.support.experiments import changed_aws
from tests.support.registry import DIGEST, NO_REGISTRY, registry

CHART = f"{aws.NEURON_CHART}:{aws.NEURON_CHART_VERSION}"
SERVING = "neuron/server:1.0"
MEASURING = f"llmperf@{DIGEST}"


@pytest.mark.parametrize(
    ("images", "answers", "status", "words"),
    [
        ([CHART], {}, "pass", f"{CHART} by its tag; today it is {DIGEST}"),
        ([], {}, "fail", f"has no {CHART}"),
        ([CHART], {"status": 503}, "warn", "answers 503"),
    ],
)
def test_the_chart_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    images: list[str],
    answers: dict[str, Any],
    status: str,
    words: str,
) -> None:
    with registry(*images, **answers) as host:
        monkeypatch.setattr(aws, "NEURON_CHART_REGISTRY", host)
        result = registry_checks.neuron_chart(stubs.situation())
    assert result.status == status
    assert words in result.observation
    assert ("-c neuron-chart=FOLDER" in result.next_step) == (status != "pass")


def images(patch: pytest.MonkeyPatch, serving: str, measuring: str | None) -> Any:
    experiment = changed_aws(stubs.experiment(), load_generator_image=measuring)
    patch.setattr(NeuronExperiment, "image", property(lambda _: serving))
    return registry_checks.images(stubs.situation(experiment))


def test_an_unpinned_serving_image_is_offered_as_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    with registry(SERVING) as host:
        result = images(monkeypatch, f"{host}/{SERVING}", f"{host}/{MEASURING}")
    assert result.status == "pass"
    pins = result.paste["pins"]
    assert pins == {"serving_image_digest": DIGEST}


def test_a_pin_is_a_part_of_the_name() -> None:
    image = stubs.experiment(pins={"serving_image_digest": DIGEST}).spec.image
    assert image == f"{stubs.experiment().spec.image}@{DIGEST}"


def test_a_pinned_serving_image_offers_no_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = stubs.experiment(pins={"serving_image_digest": DIGEST})
    monkeypatch.setattr(registry_checks, "digest_of", {pinned.spec.image: DIGEST}.__getitem__)
    result = registry_checks.images(stubs.situation(pinned))
    assert (result.status, result.paste) == ("pass", {})


@pytest.mark.parametrize(
    ("serving", "measuring", "status"),
    [
        (SERVING, None, "pass"),
        ("neuron/server:2.0", None, "fail"),
        (SERVING, "llmperf:2.0", "fail"),
        (SERVING, NO_REGISTRY, "warn"),
    ],
)
def test_each_image_must_exist(
    monkeypatch: pytest.MonkeyPatch, serving: str, measuring: str | None, status: str
) -> None:
    with registry(SERVING) as host:
        away = measuring if measuring != NO_REGISTRY else f"{NO_REGISTRY}/llmperf:1"
        there = away if away is None or "/" in away else f"{host}/{away}"
        result = images(monkeypatch, f"{host}/{serving}", there)
    assert result.status == status
    assert bool(result.next_step) == (status != "pass")
