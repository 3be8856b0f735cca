"""Asks the servers of a command line what they serve, before anything is measured."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace

from draftworth.errors import UserInputError, suggestion
from draftworth.measuring.http_client import API_KEY_VARIABLE, ConnectError
from draftworth.measuring.model_list import NotOpenAIError, served_models
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.untrusted import one_line

# The model in a run specification until the servers have said which one they serve.
UNKNOWN_MODEL = ""


def with_served_model(spec: RunSpec, url_options: Mapping[str, str]) -> RunSpec:
    """Return the specification with the model that all servers serve, if it has none.

    url_options: by variant, the option that gave its base URL, for error messages.
    UserInputError: a server cannot be reached, is none of OpenAI's API or does not serve the model;
        or there is no model, and the servers do not serve exactly one.
    """
    served = {e: _served(e, url_options[e.variant]) for e in spec.endpoints}
    model = spec.shape.model
    if model == UNKNOWN_MODEL:
        return replace(spec, shape=replace(spec.shape, model=_only_model(served)))
    for endpoint, names in served.items():
        if names and model not in names:
            raise UserInputError(
                f"--model: given {one_line(model)!r}, which {url_options[endpoint.variant]} "
                f"({endpoint.base_url}) does not serve, allowed there: {_listed(names)}"
                f"{suggestion(model, names)}; next: give a name that all servers list, or leave "
                "--model out if each serves one model"
            )
    return spec


def _served(endpoint: Endpoint, option: str) -> tuple[str, ...]:
    try:
        return asyncio.run(served_models(endpoint.base_url, os.environ.get(API_KEY_VARIABLE)))
    except ConnectError as error:
        raise UserInputError(
            f"{option}: given {error}; allowed: the address of a server that runs; next: start "
            "it, or correct the address"
        ) from error
    except NotOpenAIError as error:
        raise UserInputError(
            f"{option}: given {endpoint.base_url}, but {error}; allowed: {error.allowed}; "
            f"next: {error.next_step}"
        ) from error


def _only_model(served: Mapping[Endpoint, tuple[str, ...]]) -> str:
    """Return the model that all servers serve; UserInputError: there is none, or several."""
    common = set.intersection(*(set(names) for names in served.values()))
    if len(common) == 1 and all(len(names) == 1 for names in served.values()):
        return common.pop()
    lists = "; ".join(f"{e.variant} serves {_listed(names)}" for e, names in served.items())
    raise UserInputError(
        f"--model: given nothing, and {lists}; allowed: nothing only where each server lists "
        "exactly one model, the same; next: give --model NAME, or serve the model under one name "
        "(vLLM: --served-model-name)"
    )


def _listed(names: tuple[str, ...]) -> str:
    return one_line(", ".join(names), characters=500) or "no list of models"
