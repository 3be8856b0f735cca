"""Makes an emulated AWS cheap: saves work that botocore and moto would repeat in every test."""

import atexit
import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import botocore.regions
import botocore.session
import pytest
import s3transfer.utils
from botocore.client import ClientCreator
from botocore.endpoint_provider import EndpointProvider
from botocore.hooks import EventAliaser, HierarchicalEmitter


@contextmanager
def service_models_read_once() -> Iterator[None]:
    """Make all botocore sessions of this process share what they compute from service models.

    This is the loader, which then parses each service's model only once; the client class, the
    model's objects and the rules of endpoints of each service; and the aliases of event names. It
    is safe because sessions never change them.
    """
    classes: dict[str, Any] = {}
    models: dict[tuple[str, str | None], Any] = {}
    creator_class: Any = ClientCreator
    make_class, load_model = creator_class._create_client_class, creator_class._load_service_model
    aliaser: Any = EventAliaser(HierarchicalEmitter())
    alias = functools.cache(aliaser._alias_event_name)

    def client_class(creator: Any, service: str, model: Any) -> Any:
        if service not in classes:
            classes[service] = make_class(creator, service, model)
        return classes[service]

    def service_model(creator: Any, service: str, version: str | None = None) -> Any:
        if (service, version) not in models:
            models[service, version] = load_model(creator, service, version)
        return models[service, version]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            botocore.session, "create_loader", functools.cache(botocore.session.create_loader)
        )
        patch.setattr(ClientCreator, "_create_client_class", client_class)
        patch.setattr(ClientCreator, "_load_service_model", service_model)
        patch.setattr(botocore.regions, "EndpointProvider", _endpoint_provider)
        patch.setattr(EventAliaser, "_alias_event_name", lambda _, name: alias(name))
        yield


# The rules of a service's endpoints, and what botocore computes from them, by the rules' id.
_PROVIDERS: dict[int, tuple[dict[str, Any], EndpointProvider]] = {}


def _endpoint_provider(ruleset_data: dict[str, Any], **options: Any) -> EndpointProvider:
    """Return what resolves endpoints by these rules: it is made once for the rules of a service."""
    key = id(ruleset_data)
    if key not in _PROVIDERS:
        _PROVIDERS[key] = ruleset_data, EndpointProvider(ruleset_data, **options)
    return _PROVIDERS[key][1]


@contextmanager
def one_signing_key() -> Iterator[None]:
    """Use one RSA key for all of moto's SNS subscriptions, because no test checks a signature."""
    from moto.sns.models import Subscription

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subscription, "private_key", _signing_key)
        yield


def _signing_key(_: Any) -> Any:
    return _made_signing_key()


@functools.cache
def _made_signing_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def emulated_account() -> str:
    """Return the URL of an emulated, empty AWS account.

    Each process has one server (moto), and each call deletes all that the server holds.
    """
    from moto.moto_api._internal.models import moto_api_backend

    url = _server()
    moto_api_backend.reset()
    return url


@functools.cache
def _server() -> str:
    from moto import backends
    from moto.server import ThreadedMotoServer

    # Without this list, moto's server would search the folders of all services twice per request.
    services = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: services
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    atexit.register(server.stop)
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


@contextmanager
def small_parts() -> Iterator[None]:
    """Allow multipart uploads with parts of any size, though S3 refuses parts below 5 MiB.

    Tests can then upload a small object in several parts.
    """
    adjuster = functools.partial(s3transfer.utils.ChunksizeAdjuster, min_size=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("s3transfer.upload.ChunksizeAdjuster", adjuster)
        patch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
        yield
