"""What compile Jobs did, and how one of them, or a server that finds graphs, is made to fail."""

from __future__ import annotations

from charts.graph_compiler import CONTAINER_NAME as COMPILER
from charts.vllm_pod import CONTAINER_NAME as ENGINE
from draftworth.records.artifact_manifest import MANIFEST_NAME, ArtifactManifest
from draftworth.records.codec import load_record
from draftworth.records.unproven_graphs import (
    COMPILING_FOLDER,
    UNPROVEN_NAME,
    CompileReport,
    UnprovenManifest,
)
from tests.cluster.api import Object
from tests.cluster.world import World


def compiler_trouble(item: Object, variant: str, trouble: str) -> None:
    """Edit a variant's compile Job: its image's modules do not do well
    (tests/pods/graph_compiler/stand_in)."""
    _add_variable(item, variant, COMPILER, {"name": "TROUBLE", "value": trouble})


def load_trouble(item: Object, variant: str, trouble: str) -> None:
    """Edit a variant's server: it does not load the graphs that it finds."""
    _add_variable(item, variant, ENGINE, {"name": "LOAD", "value": trouble})


def _add_variable(item: Object, variant: str, container: str, variable: Object) -> None:
    pod = item.get("spec", {}).get("template", {}).get("spec", {})
    for found in pod.get("containers", ()):
        if found["name"] == container and variant in item["metadata"]["name"]:
            found["env"].append(variable)


def unproven(world: World) -> dict[str, UnprovenManifest]:
    """By artifact key."""
    keys = world.keys("artifacts", UNPROVEN_NAME)
    found = (load_record(UnprovenManifest, world.get("artifacts", key)) for key in keys)
    return {manifest.graphs.key: manifest for manifest in found}


def proven(world: World) -> dict[str, ArtifactManifest]:
    """By artifact key."""
    keys = world.keys("artifacts", MANIFEST_NAME)
    found = (load_record(ArtifactManifest, world.get("artifacts", key)) for key in keys)
    return {manifest.key: manifest for manifest in found}


def reports(world: World) -> dict[str, CompileReport]:
    """By artifact key."""
    keys = (key for key in world.keys("results") if key.startswith(COMPILING_FOLDER))
    found = (load_record(CompileReport, world.get("results", key)) for key in keys)
    return {report.key: report for report in found}
