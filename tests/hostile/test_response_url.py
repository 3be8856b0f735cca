"""The controller responds only to CloudFormation: urllib contacts the host that was checked."""

from urllib.request import Request

from hypothesis import given
from hypothesis import strategies as st

from lambdas.capacity_controller.cloudformation_response import is_cloudformations
from tests.hostile.fuzzing import SCALARS, tries
from tests.lambdas.capacity_controller.conftest import RESPONSE_URL, STACK_ID

HOST = "cloudformation-custom-resource-response-useast2.s3.us-east-2.amazonaws.com"
# Characters about which parsers of URLs disagree.
DISPUTED = st.sampled_from(
    ["\n", "\t", "\r", "\\", "@", "#", "?", "/", "//", ":", ";", "%2f", "%00", "\x00", " ", "."]
)


@st.composite
def altered(draw: st.DrawFn) -> str:
    """Draw CloudFormation's URL with a few parts inserted or removed."""
    url = RESPONSE_URL
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, 100))
        url = url[:at] + draw(st.one_of(DISPUTED, st.text(max_size=3))) + url[at:]
        cut = draw(st.integers(0, 100))
        url = url[:cut] + url[cut + draw(st.integers(0, 2)) :]
    return url


def connected_to(url: str) -> str | None:
    """Return the host that urllib would connect to; None if it refuses the URL."""
    try:
        request = Request(url)
    except ValueError:
        return None
    return f"{request.type}://{request.host}"


@tries(20_000)
@given(altered())
def test_no_changed_address_passes_as_cloudformations(url: str) -> None:
    if is_cloudformations(url, STACK_ID):
        assert connected_to(url) == f"https://{HOST}"


@tries(2_000)
@given(SCALARS, st.one_of(st.just(STACK_ID), st.text(max_size=60)))
def test_no_value_that_is_no_address_is_one(url: object, stack_id: str) -> None:
    assert not is_cloudformations(url, stack_id)


def test_cloudformations_own_address_is_connected_to() -> None:
    """If no URL passed the check, the test with altered URLs would prove nothing."""
    assert is_cloudformations(RESPONSE_URL, STACK_ID)
    assert connected_to(RESPONSE_URL) == f"https://{HOST}"
