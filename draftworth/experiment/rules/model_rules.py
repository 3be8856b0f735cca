"""Rules of target and draft: models of the right kind, with the same token ids."""

import filecmp
import os
from collections.abc import Iterator
from pathlib import Path

from draftworth.errors import Problem, suggestion
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import LocalExperiment, NeuronExperiment, beside, variants_of
from draftworth.experiment.rules.registry import local_rule, neuron_rule
from draftworth.experiment.strict_model import WORDS
from draftworth.experiment.variants import HubSpeculative, LocalSpeculative

_OTHER_IDS = "the target checks the draft's token ids: with another vocabulary they mean other text"


@neuron_rule("tokenizer-family-is-known")
def _tokenizer_family_is_known(experiment: NeuronExperiment) -> Iterator[Problem]:
    speculative = variants_of(experiment, HubSpeculative)
    drafts = ((place.at("draft"), variant.draft) for place, variant in speculative)
    for key, model in ((("target",), experiment.target), *drafts):
        stated = model.tokenizer_family
        if model.facts is None and stated is None:
            family = experiment.target.known_tokenizer_family
            fit = (n for n, f in catalog().models.items() if family in (None, f.tokenizer_family))
            yield Problem(
                key=(*key, "model"),
                actual=f'"{model.model}" without tokenizer_family beside it',
                allowed="a model with tokenizer_family: its tokenizer's family, e.g. qwen3; or one "
                f"of the catalogue: {', '.join(fit)}",
                reason="the catalogue does not know this model, so it cannot tell whether target "
                f"and draft share token ids{suggestion(model.model, catalog().models)}",
            )
        elif model.facts and stated is not None and stated != model.facts.tokenizer_family:
            yield Problem(
                key=(*key, "tokenizer_family"),
                actual=f'"{stated}" for {model.model}',
                allowed=f"{model.facts.tokenizer_family}, or leave the key out",
                reason="the catalogue knows this model's tokenizer",
            )


@neuron_rule("draft-is-of-the-targets-family")
def _draft_is_of_the_targets_family(experiment: NeuronExperiment) -> Iterator[Problem]:
    target = experiment.target
    wanted = target.known_tokenizer_family
    for place, variant in variants_of(experiment, HubSpeculative):
        family = variant.draft.known_tokenizer_family
        if wanted is not None and family is not None and family != wanted:
            fitting = (n for n, f in catalog().models.items() if f.tokenizer_family == wanted)
            yield Problem(
                key=place.at("draft", "model"),
                actual=f"{variant.draft.model} (tokenizer family {family}) for {target.model} "
                f"({wanted})",
                allowed=f"a draft of the family {wanted}: {', '.join(fitting)}",
                reason=_OTHER_IDS,
            )


@neuron_rule("draft-is-what-the-method-takes")
def _draft_is_what_the_method_takes(experiment: NeuronExperiment) -> Iterator[Problem]:
    for place, variant in variants_of(experiment, HubSpeculative):
        method, facts = catalog().methods[variant.method], variant.draft.facts
        if facts is None or method.takes(facts.kind):
            continue
        yield Problem(
            key=place.at("draft", "model"),
            actual=f"{WORDS['kinds'][facts.kind]} for method {variant.method}",
            allowed=WORDS["kinds"][method.draft or "none"],
            reason=f"{variant.method} takes nothing else: a head reads the target's hidden states, "
            "a draft model is a whole model of its own",
        )


@neuron_rule("head-is-of-the-target")
def _head_is_of_the_target(experiment: NeuronExperiment) -> Iterator[Problem]:
    """Refuse a draft head (such as EAGLE's) that the catalogue says is for another target.

    Nothing is refused if the catalogue lacks the head or the target.
    """
    target = experiment.target
    for place, variant in variants_of(experiment, HubSpeculative):
        facts = variant.draft.facts
        trained_for = facts.trained_for if facts else None
        if trained_for is not None and target.facts and target.model != trained_for:
            heads = (n for n, f in catalog().models.items() if f.trained_for == target.model)
            yield Problem(
                key=place.at("draft", "model"),
                actual=f"{variant.draft.model}, trained for {trained_for}, with {target.model}",
                allowed=", ".join(heads) or f"a head of {target.model}: the catalogue knows none",
                reason="a head reads the hidden states of the one target that it was trained for",
            )


@neuron_rule("target-is-a-model")
def _target_is_a_model(experiment: NeuronExperiment) -> Iterator[Problem]:
    facts = experiment.target.facts
    if facts is not None and facts.kind != "causal_lm":
        yield Problem(
            key=("target", "model"),
            actual=f"{experiment.target.model}, {WORDS['kinds'][facts.kind]}",
            allowed=WORDS["kinds"]["causal_lm"],
            reason="a speculation head cannot be served by itself",
        )


@local_rule("local-models-are-there")
def _local_models_are_there(experiment: LocalExperiment, path: Path) -> Iterator[Problem]:
    speculative = variants_of(experiment, LocalSpeculative)
    drafts = ((place.at("draft"), variant.draft) for place, variant in speculative)
    for key, model in ((("target",), experiment.target), *drafts):
        folder = beside(path, model.path)
        if not os.path.isfile(folder / "config.json"):
            yield Problem(
                key=(*key, "path"),
                actual=f'"{model.path}"',
                allowed="a checkpoint folder with config.json and tokenizer.json",
                reason=f"{folder} has no config.json",
            )


@local_rule("local-tokenizers-are-equal")
def _local_tokenizers_are_equal(experiment: LocalExperiment, path: Path) -> Iterator[Problem]:
    for place, variant in variants_of(experiment, LocalSpeculative):
        models = (experiment.target, variant.draft)
        files = [beside(path, model.path) / "tokenizer.json" for model in models]
        if all(map(os.path.isfile, files)) and not filecmp.cmp(files[0], files[1], shallow=False):
            yield Problem(
                key=place.at("draft", "path"),
                actual=f'"{variant.draft.path}", whose tokenizer.json differs from the target\'s',
                allowed="a draft with the target's tokenizer",
                reason=_OTHER_IDS,
            )
