"""Published numbers of training models that determine their memory.

The architectures are those of the performance model's zoo (one source); this file adds only what
memory needs: the vocabulary and whether input and output embeddings are one matrix.

Sources: BERT (Devlin et al., NAACL'19), RoBERTa (Liu et al., 2019), GPT-2 (Radford et al., 2019),
T5 (Raffel et al., JMLR'20), LLaMA (Touvron et al., 2023), ViT (Dosovitskiy et al., ICLR'21), and
the configuration files that the authors released with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from morph_opt.core.documents.source import packaged_toml
from morph_opt.core.domain import InputError
from morph_opt.core.domain._validate import require_int
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.perf.analytic.architecture import Architecture


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Published numbers of a training model that determine its memory.

    Parameters
    ----------
    architecture
        Shared with the performance model.
    vocabulary
        Tokens of the vocabulary; 0 for a model without token embeddings (ViT).
    tied
        Whether input embedding and output layer share one matrix.
    """

    architecture: Architecture
    vocabulary: int = 0
    tied: bool = True

    def __post_init__(self) -> None:
        require_int("vocabulary", self.vocabulary, at_least=0)
        if self.layer_parameters < 4 * self.architecture.hidden**2:
            raise InputError(
                f"{self.architecture.parameters} parameters less embeddings do not fill "
                f"{self.architecture.layers} layers of hidden size {self.architecture.hidden}",
                field="vocabulary",
            )

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one embedding matrix."""
        return self.vocabulary * self.architecture.hidden

    @property
    def layer_parameters(self) -> float:
        """Parameters of one layer: those outside embeddings, divided by the layers."""
        embeddings = self.embedding_parameters * (1 if self.tied else 2)
        return (self.architecture.parameters - embeddings) / self.architecture.layers

    @property
    def feed_forward(self) -> float:
        """Width f of a two-matrix feed-forward block with the layer's parameters, 4h^2 + 2hf.

        It replaces the layer's real parts: 3/2 of the width of a gated block (LLaMA), and
        cross-attention (T5).
        """
        hidden = self.architecture.hidden
        return (self.layer_parameters - 4.0 * hidden**2) / (2.0 * hidden)


_VOCABULARIES: dict[str, tuple[int, bool]] = {
    "bert": (30522, True),
    "gpt2": (50257, True),
    "llama7": (32000, False),
    "llama30": (32000, False),
    "roberta": (50265, True),
    "t5": (32128, True),
    "vit": (0, True),
}

_MICRO_BENCHMARKS = (
    # T5-3B: Raffel et al., JMLR'20, section 3.7; encoder and decoder layers counted together.
    ModelFacts(Architecture("t5_3B", 2_851_598_336, 48, 1024, 512, 16, 32), 32128),
    # LLaMA-7B: Touvron et al., 2023, table 2; the batch is in the name.
    ModelFacts(Architecture("llama7b_bsz16", 6_738_415_616, 32, 4096, 2048, 16, 32), 32000, False),
)


@lru_cache(maxsize=1)
def published_facts() -> Mapping[str, ModelFacts]:
    """Return facts of the zoo's models and of the two micro-benchmarks, by name."""
    # the architectures alone: memory does not depend on fitted constants
    tables = packaged_toml("morph_opt.inputs.perf.analytic", "zoo.toml")["models"]
    found = {
        name: ModelFacts(Architecture(name, **tables[name]["architecture"]), *embedding)
        for name, embedding in _VOCABULARIES.items()
    }
    return found | {facts.architecture.name: facts for facts in _MICRO_BENCHMARKS}


def facts_of(model: str, facts: Mapping[str, ModelFacts] | None = None) -> ModelFacts | None:
    """Return the facts of a model, or None; a suffix ``@...`` of the name is ignored."""
    known = published_facts() if facts is None else facts
    return known.get(model, known.get(model.partition("@")[0]))


def known_facts(model: str) -> ModelFacts:
    """Return the facts of a model; refuse a model without facts.

    Raises
    ------
    InputError
        If the model is unknown; names those that are known.
    """
    facts = facts_of(model)
    if facts is None:
        raise InputError(unknown("model", model, sorted(published_facts())), field="model")
    return facts
