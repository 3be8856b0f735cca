"""The engine, as far as it loads a model: what is there, else what it compiles."""

from __future__ import annotations

import os
from typing import Any

from neuronx_distributed_inference.models.application_base import (  # type: ignore[import-not-found]
    NeuronApplicationBase,
)


class LLMEngine:
    @classmethod
    def from_engine_args(cls, engine_args: Any, usage_context: Any) -> LLMEngine:
        if os.environ.get("TROUBLE") == "nothing":
            return cls()
        if os.environ.get("TROUBLE") == "python":
            raise ImportError("no module named neuronxcc")
        compiled = os.environ["NEURON_COMPILED_ARTIFACTS"]
        try:
            NeuronApplicationBase(compiled).load(compiled)
        except (FileNotFoundError, ValueError):
            model = NeuronApplicationBase(
                engine_args.model,
                {**vars(engine_args), "usage": usage_context.value},
            )
            model.compile(compiled)
            model.load(compiled)
        return cls()
