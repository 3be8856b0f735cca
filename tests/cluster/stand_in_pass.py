"""Stands in for the pass of a draft over outputs: the image here has neither torch nor models.

As `sitecustomize` of an interpreter it takes the place of the modules that need them; the programs
around them are the real ones. Every second token would have been the draft's.
"""

import sys
from types import ModuleType, SimpleNamespace


def _read_outputs(model, outputs, **_):  # type: ignore[no-untyped-def]
    from draftworth.records.readings import Reading

    for output in outputs:
        yield [
            Reading(
                id=output.id,
                prompt_class=output.prompt_class,
                case=output.case,
                prompt_id=output.prompt_id,
                hits="10" * 20,
                log_likelihood=-1.0,
                entropy=1.0,
                variance=1.0,
            )
        ]


def _tokens_of(output, tokenizer, **_):  # type: ignore[no-untyped-def]
    output.__dict__["output_ids"] = (0,) * 41
    return output


_MODELS: dict[str, object] = {
    "ending_ids": lambda _: (),
    "load_model": lambda folder, _: SimpleNamespace(read=sorted(folder.iterdir())),
    "load_tokenizer": lambda target, _: sorted(target.iterdir()),
    "model_sha256": lambda folder: str(folder),
    "tokenizer_sha256": lambda folder: str(folder),
}
_READING: dict[str, object] = {"read_outputs": _read_outputs, "tokens_of": _tokens_of}
_STAND_INS: dict[str, dict[str, object]] = {"models": _MODELS, "reading": _READING}
for _name, _has in _STAND_INS.items():
    _module = ModuleType(f"pods.teacher_forcing.{_name}")
    _module.__dict__.update(_has)
    sys.modules[_module.__name__] = _module
