"""What the charts cannot know themselves: names that AWS gives out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Bindings:
    """Names of AWS resources; CDK tokens, real names or placeholders like `${RESULTS_BUCKET}`."""

    region: str
    checkpoints_bucket: str
    artifacts_bucket: str
    results_bucket: str
    run_spec_url: str
    """`s3://BUCKET/KEY` of the run specification."""
    run_spec_sha256: str
    """Of the object there, which the pod checks: `RunSpecFile.sha256`."""
    llmperf_image: str
    llmperf_image_fingerprint: str = ""
    """What changes whenever the image does. Needed when `llmperf_image` is a CDK token, whose text
    says nothing about the image: `DockerImageAsset.asset_hash`."""
