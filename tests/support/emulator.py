"""Makes an emulated AWS cheap: saves work that botocore and moto would repeat in every test."""

import atexit
import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import botocore.regions
import botocore.session
import pytest
import s3transfer.utils
from botocore.client import ClientCreator
from botocore.endpoint_provider import EndpointProvider
from botocore.hooks import EventAliaser, HierarchicalEmitter
from moto.core.base_backend import BaseBackend


@contextmanager
def service_models_read_once() -> Iterator[None]:
    """Make all botocore sessions of this process share what they compute from service models.

    This is the loader, which then parses each service's model only once; the client class, the
    model's objects and the rules of endpoints of each service; and the aliases of event names. It
    is safe because sessions never change them. moto's URLs of a service are made once, too.
    """
    creator: Any = ClientCreator
    backend: Any = BaseBackend
    aliaser: Any = EventAliaser(HierarchicalEmitter())
    alias = functools.cache(aliaser._alias_event_name)
    load = functools.cache(botocore.session.create_loader)
    client_class = _once(creator._create_client_class, lambda _, service, model: service)
    model = _once(creator._load_service_model, lambda _, service, version=None: (service, version))
    # The loader keeps the rules that it has read, so no other rules get their id.
    provider = _once(EndpointProvider, lambda ruleset_data, **_: id(ruleset_data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", load)
        patch.setattr(ClientCreator, "_create_client_class", client_class)
        patch.setattr(ClientCreator, "_load_service_model", model)
        patch.setattr(botocore.regions, "EndpointProvider", provider)
        patch.setattr(EventAliaser, "_alias_event_name", lambda _, name: alias(name))
        patch.setattr(BaseBackend, "urls", property(_once(backend.urls.fget, type)))
        yield


def _once(make: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """Return `make`, which computes its result once for all calls whose arguments have one key."""
    results: dict[Any, Any] = {}

    def made(*arguments: Any, **options: Any) -> Any:
        if (place := key(*arguments, **options)) not in results:
            results[place] = make(*arguments, **options)
        return results[place]

    return made


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
