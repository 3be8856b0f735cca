"""The programs in a measured server's pod: `start` starts vLLM, `upload` stores compiled graphs."""

from collections.abc import Mapping
from typing import Any

from cdk8s_plus_35 import k8s

from charts import names
from charts.container_parts import LOCKED_DOWN, aws_environment, environment, guaranteed
from charts.graph_scripts import PROGRAMS_FILE, programs_name
from charts.shared_settings import SharedSettings
from charts.slot_resources import UPLOADER_RESOURCES
from charts.vllm_pod import SCRATCH_MOUNT, SCRATCH_PATH, Program
from draftworth.records import servers
from draftworth.serving.server_command import SERVING_PORT, ModelPaths, json_text

# The program `start` tests the devices and the mounted checkpoint (the self-test), and then starts
# vLLM. It ends a self-test or a server that takes too long by itself. The startup probe restarts
# the container three minutes later than that, which is needed only if `start` itself hangs.
HANGING_START_MINUTES = servers.SELF_TEST_LIMIT_MINUTES + servers.COMPILE_LIMIT_MINUTES + 3
_PROGRAMS = k8s.VolumeMount(name="graph-scripts", mount_path="/opt/draftworth", read_only=True)
_RUN = ("python3", f"{_PROGRAMS.mount_path}/{PROGRAMS_FILE}")
_HEALTH = f"--health-url=http://127.0.0.1:{SERVING_PORT}/health"


def start_program(
    shared: SharedSettings, *, artifact_key: str, artifact_inputs: Mapping[str, Any]
) -> Program:
    """Return the program `start` with all that it needs in a measured server's pod.

    It gives vLLM the compiled graphs from the artifacts bucket, starts it, and reports the server's
    state to the results bucket. If vLLM compiles graphs, a sidecar uploads them.
    artifact_inputs: the values of which the artifact key is a hash.
    """
    # The ConfigMap's chart is applied before the servers' charts.
    programs = k8s.ConfigMapVolumeSource(name=programs_name())
    return Program(
        command=[*_RUN, "start", *_start_flags(shared), "--", "vllm", "serve"],
        startup_seconds=60 * HANGING_START_MINUTES,
        environment=graph_environment(artifact_key, artifact_inputs),
        # Variant and server are read from the pod's labels, so that the pods of two variants do not
        # differ in these variables.
        pod_fields={
            servers.VARIANT_VARIABLE: f"metadata.labels['{names.VARIANT_LABEL}']",
            servers.SERVER_VARIABLE: f"metadata.labels['{names.SERVER_LABEL}']",
            servers.POD_VARIABLE: "metadata.name",
        },
        volumes=[k8s.Volume(name=_PROGRAMS.name, config_map=programs)],
        mounts=[_PROGRAMS],
        sidecars=[_uploader(shared)],
    )


def graph_environment(artifact_key: str, artifact_inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables with a variant's artifact key and the key's inputs.

    artifact_inputs: the values of which the key is a hash; the variable has them as JSON.
    """
    return {"ARTIFACT_KEY": artifact_key, "ARTIFACT_INPUTS": json_text(artifact_inputs)}


def _start_flags(shared: SharedSettings) -> list[str]:
    paths = ModelPaths()
    return [
        f"--artifacts={shared.artifacts.path}",
        f"--scratch={SCRATCH_PATH}",
        f"--checkpoint=target={paths.target}",
        f"--checkpoint=draft={paths.draft}",
        f"--slot-devices={shared.devices}",
        _HEALTH,
        # The values that follow are passed as flags and not as environment variables, because vLLM
        # would inherit the variables.
        f"--results={shared.results_bucket}",
        f"--region={shared.region}",
        f"--starts-with-compiler-failure={shared.starts_with_compiler_failure}",
        *shared.graph_flags,
    ]


def _uploader(shared: SharedSettings) -> k8s.Container:
    """Return the container that uploads compiled graphs.

    It is a container and not a Job, because the graphs are on the pod's disk, and a Job that
    compiles them again would need devices, which the pod has claimed. It does not exit when it has
    finished, because the pod is not ready while a container restarts.
    """
    bucket = f"--bucket={shared.artifacts_bucket}"
    return k8s.Container(
        name="graph-uploader",
        image=shared.image,
        image_pull_policy="IfNotPresent",
        command=[*_RUN, "upload"],
        args=[f"--scratch={SCRATCH_PATH}", bucket, _HEALTH],
        env=environment(aws_environment(shared.region)),
        resources=guaranteed(UPLOADER_RESOURCES),
        security_context=LOCKED_DOWN,
        volume_mounts=[SCRATCH_MOUNT, _PROGRAMS],
    )
