"""The stack's part `benchmark`: how charts are applied, the image, the rights of pods' roles."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import names
from draftworth.experiment.aws import KUBECTL_AT_ONCE
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from stacks.constructs.applied_charts import PRUNED_KINDS
from tests.stacks.graph import most_at_once, templates_of
from tests.stacks.rendering import Granted, granted_in, kubernetes_objects, may, rights, without
from tests.stacks.synthesis import Template, benchmark, experiments, of_type, synthesis

pytestmark = [pytest.mark.synth]
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
DENIED: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("denied.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", tuple(experiments()))
def test_no_deploy_exceeds_a_new_accounts_concurrency(name: str) -> None:
    """Each resource takes two concurrent executions, and a new account may have ten."""
    assert most_at_once(templates_of(name)) == KUBECTL_AT_ONCE
    assert 2 * KUBECTL_AT_ONCE <= 10


def test_charts_without_an_order_are_found() -> None:
    templates = {k: copy.deepcopy(t) for k, t in templates_of("qwen3-32b").items()}
    for resource in of_type(templates["benchmark"], MANIFEST).values():
        lane = {k for k in resource["DependsOn"] if k.startswith(("ServiceAccount", "Network"))}
        resource["DependsOn"] = [k for k in resource["DependsOn"] if k not in lane]
    assert most_at_once(templates) > KUBECTL_AT_ONCE


def test_candidates_share_the_lanes() -> None:
    """A candidate's chart waits for one other's at most, in the lane of both.

    All other orders are in `destroy_order.yaml`.
    """
    template = benchmark("qwen3-32b-search")
    candidates = {k for k in of_type(template, MANIFEST) if "Chartcandidate" in k}
    assert len(candidates) == len(experiments()["qwen3-32b-search"].variants) - 1
    for candidate in candidates:
        waits_for = template["Resources"][candidate]["DependsOn"]
        assert len(candidates & {*waits_for}) <= 1


def standing_alone(template: Template) -> Iterator[dict[str, Any]]:
    """Yield the Kubernetes objects that have a manifest resource each, which is not pruned."""
    for manifest in of_type(template, MANIFEST).values():
        if "PruneLabel" not in manifest["Properties"]:
            (item,) = kubernetes_objects(manifest)
            yield item


def test_a_chart_prunes_what_kubectl_can_prune() -> None:
    template = benchmark()
    made = of_type(template, MANIFEST).values()
    manifests = [m for m in made if "PruneLabel" in m["Properties"]]
    labels = [m["Properties"]["PruneLabel"] for m in manifests]
    assert len(set(labels)) == len(labels) == 7
    for manifest, label in zip(manifests, labels, strict=True):
        objects = kubernetes_objects(manifest)
        assert {o["kind"] for o in objects} <= PRUNED_KINDS
        assert all(label in o["metadata"]["labels"] for o in objects)


@pytest.mark.parametrize("name", tuple(experiments()))
def test_objects_that_exist_fail_no_deploy(name: str) -> None:
    """Without `Overwrite` CDK's function creates objects, and refuses those of a failed deploy."""
    for manifest in of_type(benchmark(name), MANIFEST).values():
        assert manifest["Properties"]["Overwrite"] is True


@pytest.mark.parametrize("name", tuple(experiments()))
def test_what_kubectl_does_not_prune_stands_alone(name: str) -> None:
    """CloudFormation deletes an object that is a resource by itself; `--prune` would leave it."""
    kinds = {item["kind"] for item in standing_alone(benchmark(name))}
    assert {"ServiceAccount", "NetworkPolicy", "ResourceClaimTemplate"} <= kinds
    assert not PRUNED_KINDS & kinds


def test_given_image_replaces_the_built_one() -> None:
    image = experiments()["on-demand"].spec.aws.load_generator_image
    assets = json.loads(synthesis().path("on-demand", "assets").read_text())
    assert assets["dockerImages"] == {}
    assert str(image) in json.dumps(benchmark("on-demand"))


def test_image_is_for_cpu_nodes_from_dockerfiles_files() -> None:
    assets = json.loads(synthesis().path("qwen3-32b", "assets").read_text())
    (image,) = (asset["source"] for asset in assets["dockerImages"].values())
    assert image["platform"] == "linux/amd64"
    assert image["dockerFile"] == "pods/measuring/Dockerfile"
    staged = synthesis().folder / image["directory"]
    files = {str(p.relative_to(staged)) for p in staged.rglob("*") if p.is_file()}
    assert {"pods/measuring/Dockerfile", "draftworth/records/results.py"} <= files
    assert {f.split("/")[0] for f in files} == {"draftworth", "pods"}
    assert not [f for f in files if f.endswith(".pyc")]


@pytest.mark.parametrize("name", tuple(experiments()))
def test_no_two_service_accounts_share_a_role(name: str) -> None:
    associations = of_type(benchmark(name), "AWS::EKS::PodIdentityAssociation").values()
    roles = {a["Properties"]["ServiceAccount"]: a["Properties"]["RoleArn"] for a in associations}
    servers = {names.service_name(variant.name) for variant in experiments()[name].variants}
    assert set(roles) == {
        *servers,
        names.MEASURING_JOB_SERVICE_ACCOUNT,
        names.STAGER_SERVICE_ACCOUNT,
    }
    assert len({json.dumps(role) for role in roles.values()}) == len(associations)
    assert {a["Properties"]["Namespace"] for a in associations} == {names.NAMESPACE}


ONCE = '{"Null": {"s3:if-none-match": "false"}}'


def who_replaces_results(template: Template) -> list[str]:
    """Return the rights of any role to replace or delete a run's files in the results bucket."""
    changes = ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:*")
    return [
        line
        for line in rights(template)
        if any(f" | {action} | ${{Results.Arn}}/runs/" in line for action in changes)
        and f" | if {ONCE}" not in line
    ]


@pytest.mark.parametrize("name", tuple(experiments()))
def test_nobody_replaces_a_result(name: str) -> None:
    assert who_replaces_results(benchmark(name)) == []


def test_a_right_to_replace_results_is_found() -> None:
    text = json.dumps(benchmark())
    wider = json.loads(text.replace('"Condition": {"Null": {"s3:if-none-match": "false"}}, ', ""))
    assert who_replaces_results(wider)


def wrong_about_reports(template: Template, experiment: ResolvedNeuron) -> list[str]:
    """Return where the rights of servers on the results bucket differ from the wanted ones.

    Wanted: a server and its canary, which share a role, put their reports, and do nothing else.
    """
    wrong = []
    lines = list(rights(template))
    for variant in experiment.variants:
        role, name = server_role(variant), variant.name
        report_keys = {f"control/canary/*/{name}.json"}
        report_keys |= {f"control/serving/{names.server_name(slot)}.json" for slot in variant.slots}
        granted = {
            line.removeprefix(f"{role} | ")
            for line in lines
            if line.startswith(f"{role} | ") and ("Results" in line or "-assets-" in line)
        }
        wanted = {f"s3:PutObject | ${{Results.Arn}}/{key}" for key in report_keys}
        wrong += [f"{role}: {line}" for line in sorted(granted ^ wanted)]
    return wrong


@pytest.mark.parametrize("name", tuple(experiments()))
def test_servers_report_state_without_access_to_results(name: str) -> None:
    assert wrong_about_reports(benchmark(name), experiments()[name]) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/control/serving/vllm-baseline.json", "/control/serving/*"),
        ("/control/serving/slot1-vllm-baseline.json", "/control/serving/vllm-other.json"),
        ("/control/canary/*/baseline.json", "/control/canary/*"),
        ("/control/serving/vllm-baseline.json", "/runs/baseline.json"),
    ],
)
def test_a_wrong_right_to_report_is_found(old: str, new: str) -> None:
    assert wrong_about_reports(replaced(old, new), experiments()["qwen3-32b"])


WRITING = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")


def server_role(variant: NeuronVariant) -> str:
    """Return the name of a variant's role as in the lines of `rights`."""
    return "WorkloadRoles" + re.sub(r"\W", "", names.service_name(variant.name))


def graph_folder(variant: NeuronVariant) -> str:
    """Return the folder of a variant's compiled graphs in S3, as in the lines of `rights`."""
    return f"${{Artifacts.Arn}}/{variant.artifact_key}"


def wrong_about_uploads(template: Template, experiment: ResolvedNeuron) -> list[str]:
    """Return the rights that servers lack to upload their graphs, and those that are too many."""
    granted = granted_in(template)
    return [
        wrong
        for variant in experiment.variants
        for wrong in (
            *_lacks_for_own_graphs(template, granted, variant),
            *_may_write_elsewhere(granted, variant, experiment),
        )
    ]


def _lacks_for_own_graphs(
    template: Template, granted: Granted, variant: NeuronVariant
) -> Iterator[str]:
    role, folder = server_role(variant), graph_folder(variant)
    for action in WRITING:
        if not may(granted, role, action, f"{folder}/upload/weights/tp0"):
            yield f"not {action} {folder}/upload/weights/tp0"
    once = f"{folder}/_ARTIFACTS.json | if {ONCE}"
    if f"{role} | s3:PutObject | {once}" not in list(rights(template)):
        yield f"not once {folder}/_ARTIFACTS.json"


def _may_write_elsewhere(
    granted: Granted, variant: NeuronVariant, experiment: ResolvedNeuron
) -> Iterator[str]:
    """Yield the objects that a server may write though they are not its variant's graphs.

    Variants with the same artifact key share graphs, so both may write these.
    """
    other_folders = {graph_folder(v) for v in experiment.variants} - {graph_folder(variant)}
    objects = [
        "${Artifacts.Arn}/other/upload/a",
        "${Checkpoints.Arn}/a/b/c/d",
        "${Results.Arn}/a/b/c",
    ]
    objects += [f"{folder}/upload/weights/tp0" for folder in other_folders]
    # A manifest may be written only under the condition that it does not exist, and never deleted.
    # `granted` has no rights under a condition.
    objects += [f"{graph_folder(v)}/_ARTIFACTS.json" for v in experiment.variants]
    for action, item in itertools.product(WRITING, objects):
        if may(granted, server_role(variant), action, item):
            yield f"{server_role(variant)} {action} {item}"


@pytest.mark.parametrize("name", tuple(experiments()))
def test_servers_upload_only_their_graphs_and_manifest_once(name: str) -> None:
    assert wrong_about_uploads(benchmark(name), experiments()[name]) == []


def test_a_wrong_right_to_upload_is_found() -> None:
    experiment = experiments()["qwen3-32b"]
    baseline_key, drafted_key = (variant.artifact_key for variant in experiment.variants)
    fewer = without(benchmark(), "s3:DeleteObject", f"/{baseline_key}/*/*")
    assert any(line.startswith("not s3:DeleteObject") for line in found_in(fewer))
    wider = replaced(f"/{baseline_key}/*/*", f"/{baseline_key}/*")
    assert any("s3:PutObject" in line and "_ARTIFACTS" in line for line in found_in(wider))
    swapped = replaced(f"/{baseline_key}/*/*", f"/{drafted_key}/*/*")
    assert any(
        f"DeleteObject ${{Artifacts.Arn}}/{drafted_key}/" in line for line in found_in(swapped)
    )


def replaced(old: str, new: str) -> Template:
    changed: Template = json.loads(json.dumps(benchmark()).replace(old, new))
    return changed


def found_in(template: Template) -> list[str]:
    return wrong_about_uploads(template, experiments()["qwen3-32b"])


def test_a_server_reads_only_models_that_it_loads() -> None:
    baseline, drafted = experiments()["qwen3-32b"].variants
    draft = f"${{Checkpoints.Arn}}/{drafted.checkpoints['draft'].storage_prefix}/config.json"
    granted = granted_in(benchmark())
    assert may(granted, server_role(drafted), "s3:GetObject", draft)
    assert not may(granted, server_role(baseline), "s3:GetObject", draft)


@pytest.mark.parametrize(
    ("role", "right"), [(role, right) for role, rights in DENIED.items() for right in rights]
)
def test_a_role_may_do_only_what_it_needs(role: str, right: str) -> None:
    action, resource = right.split()
    assert not may(granted_in(benchmark(), conditional=True), role, action, resource)


def lookups_denied(template: Template, experiment: ResolvedNeuron) -> list[str]:
    """Return the keys that Mountpoint requests on the way to a file and that a server may not get.

    Mountpoint requests each folder of a path below the mount as an object first.
    """
    below = ("", "/_ARTIFACTS.json", "/upload", "/upload/weights", "/upload/weights/tp0")
    denied = []
    granted, earlier = granted_in(template), experiment.spec.aws.checkpoints_bucket
    bucket = f"arn:aws:s3:::{earlier}" if earlier else "${Checkpoints.Arn}"
    for variant in experiment.variants:
        lookups = [f"{graph_folder(variant)}{part}" for part in below]
        models = variant.checkpoints.values()
        lookups += [f"{bucket}/{model.storage_prefix}/config.json" for model in models]
        role = server_role(variant)
        denied += [key for key in lookups if not may(granted, role, "s3:GetObject", key)]
    return denied


@pytest.mark.parametrize("name", tuple(experiments()))
def test_servers_may_look_up_every_folder_for_mountpoint(name: str) -> None:
    assert lookups_denied(benchmark(name), experiments()[name]) == []


def test_a_folder_closed_to_mountpoint_is_found() -> None:
    experiment = experiments()["qwen3-32b"]
    key = experiment.variants[0].artifact_key
    narrower = without(benchmark(), "s3:GetObject", f'/{key}"')
    assert lookups_denied(narrower, experiment) == [f"${{Artifacts.Arn}}/{key}"]


def test_servers_may_list_so_missing_is_not_denied() -> None:
    granted = granted_in(benchmark())
    for variant in experiments()["qwen3-32b"].variants:
        for bucket in ("${Artifacts.Arn}", "${Checkpoints.Arn}"):
            assert may(granted, server_role(variant), "s3:ListBucket", bucket)
