"""CDK's kubectl handler creates, changes and deletes real objects, in every order of deploys.

Its events are made from the synthesized templates, as CloudFormation would make them.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aws_cdk as cdk
import pytest

from charts.names import NAMESPACE
from draftworth.planning.resolved import load_neuron
from stacks.application import build_application
from tests.cluster.api import Api, Object, path_of, path_of_object
from tests.cluster.conftest import empty
from tests.cluster.control_plane import ControlPlane
from tests.cluster.deploying import MANIFEST, Deployment, handler
from tests.cluster.living import REFERENCE, as_created, comparable, living
from tests.end_to_end.cloud import Cloud
from tests.pods.compiled_graphs.pods import eventually
from tests.stacks.synthesis import Template, cdk_context, parts_of
from tests.support.experiments import Edit, both, put, write_experiment
from tests.support.shared import shared_folder

pytestmark = [pytest.mark.synth]

BASE = "qwen3-32b"
# A destroy takes less than a minute, because there is no kubelet and so no pod that has to end.
GONE_WITHIN_SECONDS = 60


def _drafted(name: str, model: str, window: int) -> dict[str, Any]:
    draft = {"model": model}
    return {"name": name, "method": "fused_draft", "draft": draft, "window": window}


# {name of a change: how it edits the file of qwen3-32b}. All these experiments are deployed as one
# stack. None: the file of another shipped experiment, with the name qwen3-32b.
CHANGES: Mapping[str, Edit | None] = {
    "published": put("name", value=BASE),
    "one variant more": lambda data: data["variants"].append(_drafted("k5", "Qwen/Qwen3-1.7B", 5)),
    "another draft": put("variants", 1, value=_drafted("small", "Qwen/Qwen3-0.6B", 7)),
    # One of the candidates has the same name as the speculating variant of qwen3-32b.
    "a search": both(
        put("variants", value=[{"name": "baseline", "method": "none"}]),
        put(
            "search",
            value={
                "method": "fused_draft",
                "drafts": [{"model": "Qwen/Qwen3-1.7B"}],
                "windows": [5, 7],
            },
        ),
    ),
    "another slot": both(put("serving", "slot_devices", value=16)),
    "other settings": both(
        put("rerun", value=2),
        put("target", "revision", value="v1.1"),
        put("serving", "max_num_seqs", value=2),
        put("workload", "concurrency", value=2),
        put("aws", "deadline_minutes", value=200),
        put("aws", "hub_token_secret", value="draftworth/hub"),
        put("aws", "capacity", "kind", value="on_demand"),
    ),
    "another release": None,
}


@cache
def assembly(change: str) -> Path:
    return shared_folder(f"changed-{change.replace(' ', '-')}", lambda to: _synth(change, to))


def _synth(change: str, folder: Path) -> None:
    edit = CHANGES[change]
    if edit is None:
        path = write_experiment(folder, put("name", value=BASE), base="llama-3.1-8b-eagle3")
    else:
        path = write_experiment(folder, edit)
    # CDK's own validation is off: tests/stacks validates such templates.
    context = cdk_context() | {"@aws-cdk/core:validateAgainstDefaultRules": False}
    app = cdk.App(context=context, outdir=str(folder), analytics_reporting=False)
    build_application(app, experiment=load_neuron(path))
    app.synth()


def templates(change: str) -> Mapping[str, Template]:
    return parts_of(json.loads((assembly(change) / f"draftworth-{BASE}.template.json").read_text()))


def resolved(change: str) -> Template:
    """Return the template of the stack's part `benchmark` for a change, with references resolved.

    Where CloudFormation would put real values, such as names of buckets, it has made-up ones.
    """
    made_up = Cloud(
        names=cast(Any, SimpleNamespace(stack=f"draftworth-{BASE}")),
        region="us-east-2",
        templates=templates(change),
        cloudformation=cast(Any, None),
        now_unix_s=0.0,
    )
    template = made_up.templates["benchmark"]
    resources = {
        k: {**r, "Properties": made_up.resolved("benchmark", r["Properties"])}
        if r["Type"] == MANIFEST
        else r
        for k, r in template["Resources"].items()
    }
    return {**template, "Resources": resources}


@pytest.fixture(scope="module")
def published(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Yield the deployment of qwen3-32b, which all tests share: each restores what it changes.

    The cluster also has an empty namespace, in which `as_created` tries to create objects.
    """
    if plane.api.find(path_of("Namespace", REFERENCE)) is None:
        metadata = {"name": REFERENCE}
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    folder = tmp_path_factory.mktemp("published")
    with handler(plane, assembly("published"), folder) as handle:
        stack = Deployment(handler=handle, resolve=lambda value: value)
        assert {done.split()[0] for done in stack.deploy(resolved("published"))} == {"Create"}
        yield stack
        empty(plane.api)


def differences(api: Api, wanted: dict[str, Object]) -> dict[str, Any]:
    live_objects, wanted_objects = comparable(living(api)), comparable(wanted)
    return {
        key: (wanted_objects.get(key), live_objects.get(key))
        for key in sorted(wanted_objects.keys() | live_objects.keys())
        if wanted_objects.get(key) != live_objects.get(key)
    }


def check(api: Api, stack: Deployment) -> None:
    wanted = as_created(api, stack.objects())
    try:
        eventually(lambda: not differences(api, wanted), seconds=30)
    except AssertionError:
        assert differences(api, wanted) == {}


def every_transition(names: list[str]) -> list[str]:
    """Return a walk that goes once from each name to each other name."""
    return [name for pair in itertools.combinations(names, 2) for name in pair] + names[:1]


def test_a_walk_goes_from_each_to_each() -> None:
    walk = list(itertools.pairwise(every_transition(list(CHANGES))))
    assert sorted(walk) == sorted(itertools.permutations(CHANGES, 2))


def test_deploying_again_without_a_change_changes_nothing(published: Deployment) -> None:
    assert published.deploy(resolved("published")) == []


def test_objects_of_an_older_version_are_taken_over(
    plane: ControlPlane, published: Deployment
) -> None:
    """A deploy succeeds if objects exist already that are new as resources of the template.

    An older version of draftworth applied service accounts and policies with their chart.
    """
    alone = [k for k in published.deployed if not k.startswith("Chart")]
    assert alone
    for logical in alone:
        del published.deployed[logical]
    assert len(published.deploy(resolved("published"))) == len(alone)
    check(plane.api, published)


def test_a_chart_applied_in_part_is_applied_again(
    plane: ControlPlane, published: Deployment
) -> None:
    """A deploy goes on where the API server refused the second object of a new chart."""
    (serving,) = (logical for logical in published.deployed if "Chartserving" in logical)
    first, second, *_ = items = json.loads(published.deployed.pop(serving)["Manifest"])
    for item in items:
        plane.api.delete(path_of_object(item))
    eventually(lambda: not any(plane.api.find(path_of_object(item)) for item in items))

    def refuse(item: Object) -> None:
        if (item["kind"], item["metadata"]) == (second["kind"], second["metadata"]):
            item["metadata"]["labels"]["refused"] = "-"

    published.edit = refuse
    with pytest.raises(AssertionError, match=r"is invalid: metadata\.labels"):
        published.deploy(resolved("published"))
    published.edit = None
    assert plane.api.find(path_of_object(first)) is not None
    assert plane.api.find(path_of_object(second)) is None
    assert published.deploy(resolved("published")) == [f"Create {serving}"]
    check(plane.api, published)


def test_a_field_that_somebody_changed_is_seen(plane: ControlPlane, published: Deployment) -> None:
    wanted = as_created(plane.api, published.objects())
    path = path_of("Deployment", "vllm-baseline")
    plane.api.change(path, {"spec": {"minReadySeconds": 5}})
    assert list(differences(plane.api, wanted)) == ["Deployment vllm-baseline"]
    plane.api.change(path, {"spec": {"minReadySeconds": None}})
    assert differences(plane.api, wanted) == {}


def test_what_is_left_over_is_seen(plane: ControlPlane, published: Deployment) -> None:
    wanted = as_created(plane.api, published.objects())
    metadata = {"name": "old", "namespace": NAMESPACE}
    plane.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    assert list(differences(plane.api, wanted)) == ["ServiceAccount old"]
    plane.api.delete(path_of("ServiceAccount", "old"))


def test_changes_in_every_order_leave_the_wanted_objects(api: Api, published: Deployment) -> None:
    """After each change of an experiment to another one, exactly the new one's objects exist.

    This is the last test of the module, because it destroys the shared stack at its end.
    """
    for change in every_transition(list(CHANGES)):
        published.deploy(resolved(change))
        check(api, published)
    published.destroy()
    eventually(lambda: not living(api), seconds=GONE_WITHIN_SECONDS)
    assert api.find(path_of("Namespace", NAMESPACE)) is None
