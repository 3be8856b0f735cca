"""Asks a container registry whether it has an image, without credentials, and for its digest.

The requests are those of the OCI Distribution Specification; the tokens are those of Docker's
registries, which give one to everybody for a public image.
"""

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from typing import Self
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from draftworth.errors import DraftworthError
from draftworth.untrusted import TooLargeError, one_line, read_at_most

_SECONDS = 10
# Registries on this machine are asked without TLS, as container engines ask them.
_THIS_MACHINE = ("127.0.0.1", "localhost")
_NAMES_OF_DOCKER_HUB = ("", "docker.io")
_DOCKER_HUB = "registry-1.docker.io"
# Images for one or several platforms, and Helm charts, which registries hold as images.
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_PARAMETER = re.compile(r'(realm|service)="([^"]*)"')


class NoSuchImageError(DraftworthError):
    """The registry does not have the image."""


class UnansweredError(DraftworthError):
    """The registry cannot be reached or refuses to say whether it has the image."""


@dataclass(frozen=True)
class ImageName:
    """The name of an image: registry, repository, and tag or digest (`reference`)."""

    registry: str
    repository: str
    reference: str

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the parts of a name such as `public.ecr.aws/neuron/server:1.0@sha256:...`.

        A name with a digest is looked up by the digest, as container engines do.
        """
        rest, _, digest = name.partition("@")
        first, slash, path = rest.partition("/")
        has_host = bool(slash) and (":" in first or "." in first or first == "localhost")
        host, path = (first, path) if has_host else ("", rest)
        repository, _, tag = path.partition(":")
        if host in _NAMES_OF_DOCKER_HUB:
            library = "" if "/" in repository else "library/"
            host, repository = _DOCKER_HUB, library + repository
        return cls(host, repository, digest or tag or "latest")

    @property
    def url(self) -> str:
        scheme = "http" if self.registry.partition(":")[0] in _THIS_MACHINE else "https"
        return f"{scheme}://{self.registry}/v2/{self.repository}/manifests/{self.reference}"


def digest_of(name: str) -> str:
    """Return the digest that the registry gives for the image `name`.

    Raises:
        NoSuchImageError: the registry has no such image.
        UnansweredError: it cannot be reached, answers with an error, or asks for credentials.
    """
    image = ImageName.of(name)
    try:
        headers = _headers(image)
    except HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            raise NoSuchImageError(f"{image.registry} has no {_without_registry(name)}") from error
        raise UnansweredError(
            f"{image.registry} answers {error.code} for {_without_registry(name)}"
        ) from error
    except (OSError, HTTPException, ValueError, LookupError, TypeError, TooLargeError) as error:
        raise UnansweredError(
            one_line(f"{image.registry} cannot be asked for {_without_registry(name)}: {error}")
        ) from error
    return one_line(headers.get("Docker-Content-Digest") or "of an unknown digest")


def _without_registry(name: str) -> str:
    return name.removeprefix(f"{ImageName.of(name).registry}/")


def _headers(image: ImageName) -> HTTPMessage:
    try:
        return _manifest(image)
    except HTTPError as error:
        if error.code != HTTPStatus.UNAUTHORIZED:
            raise
        challenge = error.headers.get("WWW-Authenticate", "")
    return _manifest(image, Authorization=f"Bearer {_token(image, challenge)}")


def _manifest(image: ImageName, **headers: str) -> HTTPMessage:
    headers = {"Accept": ", ".join(_MANIFESTS), **headers}
    request = Request(image.url, method="HEAD", headers=headers)  # noqa: S310 (HTTP, by ImageName)
    with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 (HTTP, by ImageName)
        received: HTTPMessage = answer.headers
        return received


def _token(image: ImageName, challenge: str) -> str:
    """Return a token for everybody, from the address that the registry's answer 401 names."""
    parameters = dict(_PARAMETER.findall(challenge))
    realm = parameters.pop("realm", "")
    origin = image.url.partition("/v2/")[0]
    if not challenge.startswith("Bearer ") or not realm.startswith(("https://", f"{origin}/")):
        raise ValueError("it asks for credentials")
    query = urlencode({**parameters, "scope": f"repository:{image.repository}:pull"})
    with urlopen(f"{realm}?{query}", timeout=_SECONDS) as answer:  # noqa: S310 (HTTPS, see above)
        token: str = json.loads(read_at_most(answer))["token"]
    return token
