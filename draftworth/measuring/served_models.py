"""Reads the names of the models that a server serves."""

import os

from draftworth.measuring.http import API_KEY_VARIABLE, ConnectError, HttpError, ask
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import MIB


async def served_models(base_url: str) -> tuple[str, ...]:
    """Return the names in `/v1/models`; empty if the server does not say them.

    Raises:
        ConnectError: no server is at this address.
    """
    try:
        _, text = await ask(
            f"{base_url}/v1/models",
            timeout_seconds=5.0,
            limit_bytes=MIB,
            api_key=os.environ.get(API_KEY_VARIABLE),
        )
        return tuple(str(model["id"]) for model in load_object(text)["data"])
    except ConnectError:
        raise
    except (HttpError, TimeoutError, RecordError, LookupError, TypeError):
        return ()
