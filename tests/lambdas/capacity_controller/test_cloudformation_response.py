"""The controller responds to CloudFormation and to nobody else."""

import pytest

from lambdas.capacity_controller.cloudformation_response import (
    RESPONSE_ATTEMPTS,
    is_cloudformations,
)
from tests.lambdas.capacity_controller.conftest import RESPONSE_URL, STACK_ID, Account

BUCKET = "cloudformation-custom-resource-response"


@pytest.mark.parametrize(
    ("region", "url"),
    [
        # Documented in "Using AWS Lambda with CloudFormation", AWS Lambda Developer Guide, and in
        # that guide for China, and seen in events.
        ("us-east-1", f"https://{BUCKET}-useast1.s3-us-east-1.amazonaws.com/arn%3Aaws?X-Amz-x=y"),
        ("cn-north-1", f"https://{BUCKET}-cnnorth1.s3.cn-north-1.amazonaws.com.cn/arn?X-Amz-x=y"),
        ("us-east-1", f"https://{BUCKET}-useast1.s3.amazonaws.com/arn%3Aaws?AWSAccessKeyId=A"),
        ("ap-southeast-2", f"https://{BUCKET}-apsoutheast2.s3-ap-southeast-2.amazonaws.com/arn"),
        # Other forms of S3's URLs.
        ("us-east-2", f"https://{BUCKET}-useast2.s3.us-east-2.amazonaws.com/arn"),
        ("us-east-2", f"https://s3.us-east-2.amazonaws.com/{BUCKET}-useast2/arn"),
        ("us-gov-west-1", f"https://{BUCKET}-usgovwest1.s3.us-gov-west-1.amazonaws.com/arn"),
        ("eusc-de-east-1", f"https://{BUCKET}-euscdeeast1.s3.eusc-de-east-1.amazonaws.eu/arn"),
    ],
)
def test_cloudformations_own_addresses_are_accepted(region: str, url: str) -> None:
    assert is_cloudformations(url, STACK_ID.replace("us-east-2", region))


BUCKET_HOST = f"{BUCKET}-useast2.s3.us-east-2.amazonaws.com"
NOT_ITS_OWN = {
    "no TLS": f"http://{BUCKET_HOST}/arn",
    "a file": f"file://{BUCKET_HOST}/etc/passwd",
    "another host": "https://example.com/answer",
    "the name in front": f"https://{BUCKET_HOST}.example.com/arn",
    "the name as user": f"https://{BUCKET_HOST}@example.com/arn",
    "another port": f"https://{BUCKET_HOST}:8443/arn",
    "the metadata service": "https://169.254.169.254/latest/meta-data",
    "another bucket": "https://attacker.s3.us-east-2.amazonaws.com/arn",
    "a bucket with a longer name": f"https://{BUCKET}-useast2x.s3.us-east-2.amazonaws.com/arn",
    "another region's bucket": f"https://{BUCKET}-useast1.s3.us-east-2.amazonaws.com/arn",
    "a load balancer of that name": f"https://{BUCKET}-useast2.s3.us-east-2.elb.amazonaws.com/arn",
    "another bucket by path": "https://s3.us-east-2.amazonaws.com/attacker/arn",
    "its name as a folder": f"https://s3.us-east-2.amazonaws.com/attacker/{BUCKET}-useast2/arn",
    "half an address": "https://[::1",
    "a line break": f"https://example.com/\r\nHost: {BUCKET_HOST}/",
    "a line break that a parser drops": f"h\nttps://{BUCKET_HOST}/arn",
    "a blank that a parser drops": f" https://{BUCKET_HOST}/arn",
    "no text": 7,
    "nothing": None,
}


@pytest.mark.parametrize("url", NOT_ITS_OWN.values(), ids=NOT_ITS_OWN)
def test_any_other_address_is_refused(url: object) -> None:
    assert not is_cloudformations(url, STACK_ID)


@pytest.mark.parametrize("stack_id", ["", "stack", "a:b:c::d"])
def test_without_a_region_no_address_is_right(stack_id: str) -> None:
    assert not is_cloudformations(f"https://{BUCKET}-.s3.amazonaws.com/arn", stack_id)


@pytest.mark.parametrize(
    "url", [f"http://{BUCKET_HOST}/arn", f"https://example.com/\r\nHost: {BUCKET_HOST}/", 7]
)
def test_a_request_with_another_address_is_still_handled(account: Account, url: object) -> None:
    """The request is handled, or else nodes of a deleted stack would go on running."""
    account.start()
    account.deploy(kind="Delete", ResponseURL=url)
    assert account.desired == 0
    assert len(account.cloudformation.answers) == 1, "only the first request was answered"
    (failure,) = [entry for entry in account.log if entry["level"] == "ERROR"]
    assert "its answer is not sent" in failure["error"]
    assert len(failure["error"]) < 400


def test_a_redirect_is_not_followed(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account.cloudformation, "redirect", f"{RESPONSE_URL}/elsewhere")
    with pytest.raises(OSError, match="307"):
        account.deploy()
    assert len(account.cloudformation.answers) == RESPONSE_ATTEMPTS, "one a try, none elsewhere"
