"""The programs before and beside vLLM: a server starts with those of its ConfigMap alone."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from charts.graph_scripts import zipped
from charts.names import server_name
from draftworth.experiment.naming import content_hash
from draftworth.records.codec import load_record
from draftworth.serving.dialects import KEY_LENGTH
from pods.compiled_graphs.scratch_records import Starts
from tests.charts import rendering
from tests.support.experiments import changed_aws, resolved
from tests.support.neuron import RUNTIME, has_compiler, put_node
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.synth

FAKE_VLLM = """\
#!/bin/sh
printf '%s\\n' "$NEURON_COMPILED_ARTIFACTS$VLLM_CACHE_ROOT" "$$" "$PYTHONPATH" "$@"
"""


def start(name: str, root: Path) -> tuple[int, list[str]]:
    """Run the command of a server's container with all its paths moved below the folder `root`.

    The programs are those of the ConfigMap, and `vllm` is a stand-in that writes what it was given.
    Returns the process id of the command and the lines that the stand-in wrote.
    """
    pod = rendering.homes(rendering.all_objects(name))[1]["spec"]["template"]["spec"]
    lay_out(name, pod, root)
    program = root / "vllm"
    program.write_text(FAKE_VLLM, encoding="utf-8")
    program.chmod(0o755)
    server = pod["containers"][0]
    command = [re.sub(r"(^|=)/", rf"\1{root}/", part) for part in server["command"]]
    put_node(root, devices=resolved(name).spec.serving.slot_devices)
    target = root / "models" / "target"
    target.mkdir(parents=True)
    (target / "model.safetensors").write_bytes(b"weights")
    command.insert(command.index("start") + 1, f"--root={root}")
    process = subprocess.Popen(
        [*command, *server["args"]],
        env={
            **{e["name"]: e.get("value", "from the pod") for e in server["env"]},
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",  # a port on which nothing listens
            "LD_LIBRARY_PATH": str(root / "lib"),
            "PATH": f"{root}:{Path(sys.executable).parent}:/usr/bin:/bin",
        },
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert process.returncode == 0
    return process.pid, output.splitlines()


def lay_out(name: str, pod: rendering.Object, root: Path) -> None:
    """Write the ConfigMap's files below `root`, at the path at which the pod mounts them."""
    (volume,) = [v["configMap"] for v in pod["volumes"] if "configMap" in v]
    (config_map,) = [
        c for c in rendering.of_kind("ConfigMap", name) if c["metadata"]["name"] == volume["name"]
    ]
    (mount,) = [
        m["mountPath"] for m in pod["containers"][0]["volumeMounts"] if m["name"] == "graph-scripts"
    ]
    folder = root / mount.lstrip("/")
    folder.mkdir(parents=True)
    for name, encoded in config_map["binaryData"].items():
        (folder / name).write_bytes(base64.b64decode(encoded))


@pytest.mark.parametrize("name", ["qwen3-32b", "llama-3.1-8b-eagle3"])
def test_a_server_starts_from_its_config_map_alone(name: str, tmp_path: Path) -> None:
    started, (graphs, pid, python_path, *arguments) = start(name, tmp_path)
    server = rendering.homes(rendering.all_objects(name))[1]["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert graphs.startswith(f"{tmp_path}/scratch/graphs/")
    assert arguments == ["serve", *server["args"]]
    assert any(json.loads(a.partition("=")[2])["model"] for a in arguments if "specul" in a)
    assert int(pid) != started, "nobody stays to say what becomes of it"
    assert python_path == "", "vllm would find our modules"
    starts = load_record(Starts, (tmp_path / "scratch" / "starts.json").read_bytes())
    assert starts.self_test
    assert starts.self_test.runtime == (RUNTIME if has_compiler() else "")


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_key_is_the_hash_of_its_inputs(name: str) -> None:
    experiment = resolved(name)
    slots = [(variant, slot) for variant in experiment.variants for slot in variant.slots]
    assert len(slots) >= 4
    for deployment, (variant, slot) in zip(
        rendering.of_kind("Deployment", name), slots, strict=True
    ):
        assert deployment["metadata"]["name"] == server_name(slot)
        server = deployment["spec"]["template"]["spec"]["containers"][0]
        environment = {e["name"]: e.get("value") for e in server["env"]}
        assert environment["ARTIFACT_KEY"] == variant.artifact_key
        inputs = json.loads(environment["ARTIFACT_INPUTS"] or "")
        assert content_hash(inputs, length=KEY_LENGTH) == environment["ARTIFACT_KEY"]


def test_a_rerun_replaces_every_server() -> None:
    """A new pod has new tries: the number of failed starts is counted on the pod's own disk."""
    again = rendering.rendered_with(rerun=2)["serving"]
    for server in (o for o in again if o["kind"] == "Deployment"):
        (before,) = (
            d for d in rendering.of_kind("Deployment") if d["metadata"] == server["metadata"]
        )
        assert before["spec"]["template"] != server["spec"]["template"]


@pytest.mark.parametrize("kind", ["spot", "on_demand"])
def test_a_failing_compiler_has_two_tries_elsewhere(kind: str) -> None:
    objects = rendering.render(changed_aws(resolved(), capacity={"kind": kind}))["serving"]
    servers = [o for o in objects if o["kind"] == "Deployment"]
    assert servers
    for server in servers:
        command = server["spec"]["template"]["spec"]["containers"][0]["command"]
        assert "--starts-with-compiler-failure=2" in command


def test_our_modules_come_before_those_of_the_image(
    tmp_path: Path,
) -> None:
    other = tmp_path / "site" / "pods"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('of the image')\n", encoding="utf-8")
    programs = {"__main__.py": "import pods.log\n", "pods/__init__.py": "", "pods/log.py": "1 / 0"}
    path = tmp_path / "programs.pyz"
    path.write_bytes(zipped(programs))
    done = subprocess.run(
        [sys.executable, str(path)],
        env={"PYTHONPATH": str(other.parent)},
        capture_output=True,
        text=True,
    )
    assert 'programs.pyz/pods/log.py", line 1' in done.stderr
