"""What a user does with the files that `draftworth manifests` has written, as text."""

import shlex
from collections.abc import Iterable, Sequence

from charts import names
from charts.benchmark_manifests import BenchmarkManifests
from charts.manifest_files import filled_by
from draftworth.records.deployment import PATHS


def next_steps(written: BenchmarkManifests) -> str:
    """Return the text that says how to apply the written files, and what the cluster needs."""
    manifests = [*map(str, written.manifests)]
    return "\n".join(
        [
            "Wrote, in the order in which to apply them:",
            *(f"  {shlex.quote(path)}" for path in manifests),
            "",
            *_values_to_fill_in(written.missing),
            "Put the run specification, which holds the prompts, where the measuring Job reads it:",
            f"  aws s3 cp {shlex.quote(str(written.run_spec))} {written.run_spec_url}",
            "It stays there until you delete it. Then apply:",
            f"  cat {shlex.join(manifests)} |{filled_by(written.missing)} kubectl apply -f -",
            "",
            _NEEDED_OF_CLUSTER,
            "Nothing starts, stops or guards those nodes here: their bill is yours to watch.",
            "",
        ]
    )


def _values_to_fill_in(missing: Sequence[str]) -> Iterable[str]:
    return [f"Values to fill in: {', '.join(missing)}. Export them.", ""] if missing else []


_SERVER_ACCOUNT = f"{names.NAMESPACE}/{names.service_name('VARIANT')}"
_MEASURING_ACCOUNT = f"{names.NAMESPACE}/{names.MEASURING_JOB_SERVICE_ACCOUNT}"
_STAGER_ACCOUNT = f"{names.NAMESPACE}/{names.STAGER_SERVICE_ACCOUNT}"
_CPU_NODES = ",".join(f"{key}={value}" for key, value in names.CPU_NODE_LABELS.items())

_NEEDED_OF_CLUSTER = f"""\
The cluster needs:
  Kubernetes 1.34 or later with the Neuron DRA driver, the Mountpoint for Amazon S3 CSI
  driver, the EKS Pod Identity agent and network policies that are enforced;
  for each variant a Pod Identity role that reads its checkpoints, reads and writes
  its artifacts and puts control/serving/DEPLOYMENT.json, for each of its Deployments,
  and control/canary/*/VARIANT.json into the results, for the service account
  {_SERVER_ACCOUNT}, one that reads the run
  specification and control/serving/*, creates results, lists and reads them and puts
  control/canary/*/{PATHS}.json, for {_MEASURING_ACCOUNT}, and one
  that writes checkpoints and reads the Hugging Face token's secret if the experiment
  names one, for {_STAGER_ACCOUNT};
  a CPU node labelled {_CPU_NODES} for stagers, canaries and the measuring Job,
  in the zone of the accelerator nodes, which are of the experiment's `aws.instance_type`."""
