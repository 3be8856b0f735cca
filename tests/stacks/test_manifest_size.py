"""CloudFormation's event for an update of a manifest is not larger than Lambda allows."""

import json
from typing import Any, cast

import aws_cdk as cdk
import pytest
from constructs import Construct

from stacks.constructs import applied_charts
from tests.stacks.rendering import collapsed, kubernetes_objects
from tests.stacks.synthesis import experiments, of_type, synthesis

pytestmark = [pytest.mark.synth]
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
# The other fields of an event, as long as they can be: a signed S3 address, and the ids of stack,
# request and resource (CloudFormation User Guide, custom resource request objects).
AROUND: dict[str, Any] = {
    "RequestType": "Update",
    "ResponseURL": "x" * 2000,
    "StackId": "x" * 200,
    "RequestId": "x" * 36,
    "ResourceType": MANIFEST,
    "LogicalResourceId": "x" * 255,
    "PhysicalResourceId": "x" * 255,
    "ServiceToken": "x" * 140,
}


def event_of_update(resource: dict[str, Any]) -> str:
    """Return the event that CloudFormation sends for an update of a manifest resource.

    `${...}` in it is about as long as the values that CloudFormation puts there.
    """
    properties = collapsed(resource["Properties"])
    both = {"ResourceProperties": properties, "OldResourceProperties": properties}
    return json.dumps({**AROUND, **both})


@pytest.mark.parametrize("name", tuple(experiments()))
def test_every_update_is_below_its_estimate_and_limit(name: str) -> None:
    manifests = of_type(synthesis().template(name, "benchmark"), MANIFEST).values()
    assert len(manifests) >= 6
    for manifest in manifests:
        estimate = applied_charts.update_event_bytes(kubernetes_objects(manifest))
        assert len(event_of_update(manifest)) < estimate < applied_charts.EARLIER_MAX_EVENT_BYTES


def test_old_and_new_and_every_quotation_mark_count() -> None:
    nothing = applied_charts.update_event_bytes([{"a": ""}])
    assert applied_charts.update_event_bytes([{"a": "x" * 1000}]) == nothing + 2 * 1000
    # A quotation mark is two characters in the text and four in the event.
    assert applied_charts.update_event_bytes([{"a": '"' * 1000}]) == nothing + 2 * 4000


@pytest.mark.parametrize(
    ("characters", "entry_types"),
    [
        (0, []),
        (applied_charts.EARLIER_MAX_EVENT_BYTES // 2, ["aws:cdk:warning"]),
        (applied_charts.MAX_EVENT_BYTES // 2, ["aws:cdk:error"]),
    ],
)
def test_synthesis_reports_an_update_that_is_too_large(
    characters: int, entry_types: list[str]
) -> None:
    manifest = Construct(cdk.Stack(cdk.App(analytics_reporting=False), "stack"), "Chart-serving")
    applied_charts.judge_size(cast(Any, manifest), [{"a": "x" * characters}])
    entries = manifest.node.metadata
    assert [entry.type for entry in entries] == entry_types
    for entry in entries:
        assert f"{applied_charts.MAX_EVENT_BYTES:,}" in entry.data
        assert "fewer variants" in entry.data
