"""Reads the names of the models that a server serves."""

from draftworth.measuring.http import ConnectError, HttpError, ask
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import MIB


async def served_models(base_url: str, api_key: str | None) -> tuple[str, ...]:
    """Return the names in `/v1/models`, if the server says them; ConnectError: it is not there."""
    try:
        head, text = await ask(
            f"{base_url}/v1/models", timeout_seconds=5.0, limit_bytes=MIB, api_key=api_key
        )
        data = load_object(text).get("data") if head.status == 200 else None
    except ConnectError:
        raise
    except (HttpError, TimeoutError, RecordError):
        return ()
    listed = data if isinstance(data, list) else []
    names = (one.get("id") for one in listed if isinstance(one, dict))
    return tuple(name for name in names if isinstance(name, str))
