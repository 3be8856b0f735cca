"""The values of a deployment that the charts need, such as the names of buckets."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Bindings:
    """The names of buckets, image and run specification that the Kubernetes objects contain.

    Each is a real name, a CDK token, or a placeholder like `${RESULTS_BUCKET}`.
    """

    region: str
    checkpoints_bucket: str
    artifacts_bucket: str
    results_bucket: str
    run_spec_url: str
    """`s3://BUCKET/KEY` of the run specification."""
    run_spec_sha256: str
    """SHA-256 of the run specification (`RunSpecFile.sha256`), which the measuring Job checks."""
    llmperf_image: str
    llmperf_image_fingerprint: str = ""
    """A text that changes whenever the image changes: `DockerImageAsset.asset_hash`.

    Needed when `llmperf_image` is a CDK token, whose text says nothing about the image.
    """
