"""Jobs on CPU nodes. A Job's name has a hash of its content, so no Job is changed in place."""

from typing import Any

import cdk8s

from charts.names import NAMESPACE, Bindings, content_name, has_cdk_token
from charts.templates import add_objects, objects_in


def add_job(
    chart: cdk8s.Chart, template: str, *, prefix: str, bindings: Bindings, **values: Any
) -> str:
    """Add the Job in `template`, filled with `values`; return its name: `prefix` and a hash."""
    if has_cdk_token(bindings.llmperf_image) and not bindings.llmperf_image_fingerprint:
        raise ValueError(
            "Bindings.llmperf_image is a CDK token, whose text does not change with the image: "
            "give llmperf_image_fingerprint too (DockerImageAsset.asset_hash), or a new image "
            "would be applied to a Job of the same name, which Kubernetes refuses"
        )
    job = objects_in("charts", template, bindings=bindings, **values)
    name = content_name(prefix, {"job": job, "image": bindings.llmperf_image_fingerprint})
    add_objects(chart, [{**job, "metadata": {"name": name, "namespace": NAMESPACE}}])
    return name
