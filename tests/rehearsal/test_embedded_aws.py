"""The embedded AWS uses nothing of the user's AWS configuration."""

import os
from pathlib import Path

import pytest

from rehearsal.embedded_aws import RESULTS_BUCKET, embedded_aws

pytestmark = [pytest.mark.emulator]


def test_the_rehearsal_ignores_the_users_aws_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    file.write_text("[broken")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "nope")
    with embedded_aws() as emulator:
        emulator.s3.put_object(Bucket=RESULTS_BUCKET, Key="a", Body=b"b")
        assert emulator.s3.get_object(Bucket=RESULTS_BUCKET, Key="a")["Body"].read() == b"b"
    assert (os.environ["AWS_PROFILE"], os.environ["AWS_CONFIG_FILE"]) == ("nope", str(file))
