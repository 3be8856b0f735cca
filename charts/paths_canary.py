"""The canary of the measuring Job's ways to a server and to Kubernetes, and its listener."""

from collections.abc import Iterator

from cdk8s_plus_35 import k8s
from constructs import Construct

from charts import names
from charts.bindings import Bindings
from charts.container_parts import amounts
from charts.cpu_job import CpuJob, ImageProgram, cpu_pod
from charts.vllm_server import service_spec
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.serving.server_command import SERVING_PORT

LISTENER = "canary-listener"
_NAME = "app.kubernetes.io/name"


class PathsCanary(Construct):
    """Two Jobs on CPU nodes: one connects as the measuring Job would, one answers like a server.

    Network policies select pods by their component, so each Job's pods have the component of what
    they stand for, and no network policy is made for the canary.
    job_name: the measuring Job's name. A new measuring Job gets a new listener and a new try.
    retries: how many failed pods are replaced.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: ResolvedNeuron,
        bindings: Bindings,
        job_name: str,
        retries: int,
    ) -> None:
        super().__init__(scope, id_)
        selector = {_NAME: "listener", **names.SERVING_COMPONENT}
        k8s.KubeService(
            self,
            "Service",
            metadata=k8s.ObjectMeta(name=LISTENER, namespace=names.NAMESPACE),
            spec=service_spec(selector),
        )
        listens = _program("listener", ["--port", str(SERVING_PORT)], memory="128Mi")
        CpuJob(
            self,
            "Listener",
            prefix=LISTENER,
            bindings=bindings,
            labels={**names.experiment_labels(experiment.name), **selector},
            annotations={"draftworth/measuring-job": job_name},
            pod=cpu_pod(listens, bindings, account=names.LISTENER_SERVICE_ACCOUNT),
            retries=retries,
        )
        tries = _program("paths", [*_arguments(experiment, bindings, job_name)], memory="512Mi")
        component = names.MEASURING_JOB_COMPONENT
        CpuJob(
            self,
            "Paths",
            prefix="canary-paths",
            bindings=bindings,
            labels=names.component_labels("paths-canary", component, experiment.name),
            annotations={},
            pod=cpu_pod(
                tries,
                bindings,
                account=names.MEASURING_JOB_SERVICE_ACCOUNT,
                mounts_token=experiment.spec.changes_servers,
            ),
            retries=retries,
        )


def _program(module: str, arguments: list[str], *, memory: str) -> ImageProgram:
    return ImageProgram(
        container=module,
        module=f"pods.canary.{module}",
        arguments=arguments,
        environment={},
        resources=k8s.ResourceRequirements(
            requests=amounts({"cpu": "0.1", "memory": memory}), limits=amounts({"memory": memory})
        ),
        volumes=[],
        mounts=[],
    )


def _arguments(experiment: ResolvedNeuron, bindings: Bindings, job_name: str) -> Iterator[str]:
    yield from ("--job", job_name, "--results", bindings.results_bucket)
    yield from ("--listener", names.base_url(LISTENER))
    if experiment.spec.changes_servers:
        yield from ("--deployment", names.server_names(experiment)[0])
