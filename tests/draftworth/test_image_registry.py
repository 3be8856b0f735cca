"""What a registry is asked, and what its answers mean."""

from typing import Any

import pytest

from draftworth.image_registry import ImageName, NoSuchImageError, UnansweredError, digest_of
from tests.support.registry import DIGEST, NO_REGISTRY, registry

IMAGE = "neuron/server:1.0"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        (
            "public.ecr.aws/neuron/server:1.0",
            "https://public.ecr.aws/v2/neuron/server/manifests/1.0",
        ),
        (f"a.example.com/b/c:1@{DIGEST}", f"https://a.example.com/v2/b/c/manifests/{DIGEST}"),
        ("localhost:5000/b", "http://localhost:5000/v2/b/manifests/latest"),
        ("docker.io/a/b:1", "https://registry-1.docker.io/v2/a/b/manifests/1"),
        ("a/b:1", "https://registry-1.docker.io/v2/a/b/manifests/1"),
        ("python:3.13", "https://registry-1.docker.io/v2/library/python/manifests/3.13"),
    ],
)
def test_a_name_has_a_manifests_address(name: str, url: str) -> None:
    assert ImageName.of(name).url == url


def test_an_image_has_the_registrys_digest() -> None:
    with registry(IMAGE) as host:
        assert digest_of(f"{host}/{IMAGE}") == DIGEST
        assert digest_of(f"{host}/{IMAGE}@{DIGEST}") == DIGEST


@pytest.mark.parametrize("missing", ["neuron/server:2.0", "neuron/other:1.0"])
def test_a_missing_image_is_an_error(missing: str) -> None:
    with registry(IMAGE) as host, pytest.raises(NoSuchImageError, match=f"has no {missing}"):
        digest_of(f"{host}/{missing}")


@pytest.mark.parametrize(
    "answers",
    [
        {"status": 503},
        {"status": 403},
        {"token": b"{}"},
        {"token": b"[" * 10_000_000},
        {"challenge": 'Basic realm="http://{host}/"'},
        # Only the registry itself may be asked without TLS.
        {"challenge": 'Bearer realm="http://127.0.0.1:9/token",service="x"'},
        {"challenge": 'Bearer realm="file:///etc/passwd",service="x"'},
    ],
)
def test_other_answers_say_nothing_about_the_image(answers: dict[str, Any]) -> None:
    with registry(IMAGE, **answers) as host, pytest.raises(UnansweredError, match=host):
        digest_of(f"{host}/{IMAGE}")


def test_nobody_answers_says_nothing_either() -> None:
    with pytest.raises(UnansweredError, match="cannot be asked"):
        digest_of(f"{NO_REGISTRY}/{IMAGE}")
