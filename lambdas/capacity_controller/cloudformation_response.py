"""The controller's response to a custom resource request of CloudFormation.

Protocol: "CloudFormation custom resource request and response reference", CloudFormation User
Guide. The response is a PUT of at most 4096 bytes to a presigned URL; without a response,
CloudFormation waits for the resource's `ServiceTimeout` and then fails.
"""

import json
import re
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.request import OpenerDirector, Request, build_opener

RESPONSE_ATTEMPTS = 3
RESPONSE_TIMEOUT_SECONDS = 10
MAX_REASON_CHARACTERS = 1000
# Domains of AWS's partitions: commercial and GovCloud, China, the European Sovereign Cloud.
_DOMAIN = r"amazonaws\.(?:com|com\.cn|eu)"
_VISIBLE = "[!-~]*"  # printable ASCII without spaces


def send_response(
    event: Mapping[str, Any], *, error: str | None, opener: OpenerDirector | None = None
) -> bool:
    """Send CloudFormation the result of the request `event`.

    Return False, and send nothing, if the request's URL is not CloudFormation's. Raise OSError or
    HTTPException if the last of `RESPONSE_ATTEMPTS` attempts fails.
    error: why the request failed; None: it succeeded. opener: None stands for urllib's default.
    """
    url, stack_id = event["ResponseURL"], str(event["StackId"])
    if not is_cloudformations(url, stack_id):
        return False
    body = {
        "Status": "SUCCESS" if error is None else "FAILED",
        "Reason": (error or "done")[:MAX_REASON_CHARACTERS],
        "PhysicalResourceId": event.get("PhysicalResourceId")
        or f"{stack_id.split('/')[1]}/{event['LogicalResourceId']}",
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    data = json.dumps(body).encode()
    # The URL is signed for an empty Content-Type; urllib would set another one.
    request = Request(url, data=data, method="PUT", headers={"Content-Type": ""})  # noqa: S310 - https
    for left in reversed(range(RESPONSE_ATTEMPTS)):
        try:
            # Only the checked URL gets the response: urllib does not follow redirects of a PUT.
            (opener or build_opener()).open(request, timeout=RESPONSE_TIMEOUT_SECONDS).close()
        except (OSError, HTTPException):
            if not left:
                raise
        else:
            break
    return True


def is_cloudformations(url: object, stack_id: str) -> bool:
    """Return whether an https URL points to CloudFormation's own bucket in the stack's region.

    The bucket's name is documented ("Access CloudFormation using an interface endpoint",
    considerations). Every form of an S3 URL is accepted, but no port and no user name.
    """
    arn = stack_id.split(":")  # arn:PARTITION:cloudformation:REGION:...
    if len(arn) < 4 or not arn[3] or not isinstance(url, str):
        return False
    region = re.escape(arn[3])
    short = re.escape(arn[3].replace("-", ""))
    bucket = f"cloudformation-custom-resource-response-{short}"
    endpoint = rf"s3(?:[.-]{region})?\.{_DOMAIN}"
    address = rf"https://(?:{bucket}\.{endpoint}/|{endpoint}/{bucket}/){_VISIBLE}"
    return re.fullmatch(address, url) is not None
