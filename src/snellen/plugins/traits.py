"""What plug-ins claim of themselves: the words of the saliency card, and the facts that decorators attach to a class."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Need = Literal[
    "gradients", "layer", "relu", "training-data", "truth", "labels", "explain", "recipe", "checkpoints"
]  # fmt: skip
"""What a plug-in cannot do without. `recipe`: relatives of the classifier have to be trained. `checkpoints`: saved ones."""

Test = Literal[
    "Completeness", "Deletion", "Faithfulness", "Infidelity", "Input Consistency", "Input Invariance", "Insertion",
    "Perturbation Testing (LeRF)", "Perturbation Testing (MoRF)", "Region Perturbation", "ROAR", "Robustness",
    "Sensitivity", "Stability", "Sufficiency",
    "Data Randomization", "Model Contrast Score",
    "Cascading Model Parameter Randomization", "Implementation Invariance", "Independent Model Parameter Randomization",
    "Linearity", "Model Consistency", "Model Weight Randomization", "Repeatability", "Reproducibility",
    "Minimality", "Sparsity", "Visual Sharpening",
    "Localization Utility", "Luminosity Calibration", "Mean IoU", "Plausibility", "The Pointing Game",
]  # fmt: skip
"""The 33 tests of the saliency card (Boggust et al. 2023, Fig. A1), in its order and under its names."""

Attribute = Literal[
    "determinism",
    "hyperparameter-dependence",
    "model-agnosticism",
    "computational-efficiency",
    "semantic-directness",
    "input-sensitivity",
    "label-sensitivity",
    "model-sensitivity",
    "minimality",
    "perceptual-correspondence",
]
"""The ten attributes of the saliency card (Boggust et al. 2023)."""


LAYERS: Literal["earlier layers"] = "earlier layers"
"""The range of a setting that names a layer: which layers there are is known of each classifier alone."""

Range = tuple[Any, ...] | Literal["earlier layers"]
"""The values of a setting that are worth trying besides the default, as one would write them."""


TRIED = "planted and pretrained networks"
"""Where the contract suite tries the traits of a method, unless the method says that it accepts fewer."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """How far a trait was shown on pretrained networks: by how much images were off at most.

    `missed` counts the images that were off by more than `within`. `benchmarks/traits.py` measures it, completeness with
    default settings; a method of another package may claim a trait without having shown it.
    """

    within: float
    images: int
    networks: int
    missed: int = 0

    def words(self, whole: str) -> str:
        """The condition as a reader needs it; `whole` is what the gap is a share of."""
        kept = f"{self.images - self.missed} of {self.images}" if self.missed else f"all {self.images}"
        return f"within {100 * self.within:g} % of {whole} on {kept} images of {self.networks} pretrained networks"


@dataclasses.dataclass(frozen=True)
class MethodTraits:
    """What a method claims of itself with its default settings; the contract suite tries to disprove each claim.

    `tried` says on which networks it does so.
    """

    name: str
    cite: str
    summary: str
    signed: bool
    complete: Shown | bool
    class_specific: bool
    deterministic: bool
    control: bool
    needs: frozenset[Need]
    implementation_invariant: Shown | bool
    at_most: bool
    caveats: Mapping[str, str]
    presets: Mapping[str, Mapping[str, Any] | str]
    ranges: Mapping[str, Range]
    version: int
    tried: str = TRIED

    @property
    def claims(self) -> str:
        """The claims in words, with the condition under which each was shown."""
        words = {
            "deterministic": self.deterministic,
            _conditional("complete", self.complete, "the rise"): self.complete,
            "class-specific": self.class_specific,
            _conditional("implementation-invariant", self.implementation_invariant, "the largest value"): (
                self.implementation_invariant
            ),
            "signed": self.signed,
        }
        return ", ".join(name for name, holds in words.items() if holds) or "none"


def _conditional(name: str, claim: Shown | bool, whole: str) -> str:
    return f"{name} ({claim.words(whole)})" if isinstance(claim, Shown) else name


@dataclasses.dataclass(frozen=True)
class MetricTraits:
    """What a metric claims of itself.

    `undefined` says in words when a score is NaN. `test` is the test of the saliency card that it answers, by default with
    its default settings. `formula` is the number as a line of mathematics. `reading` says which of several published
    readings the default is, and which setting gives the other. `caveats` are known failures by the key of the work that
    showed them. `tolerance` makes it an axiom: a method that is no farther than this from the best value keeps it, whatever
    controls do. `welcomes` is what it makes use of where there is some, and does without where there is none.
    """

    name: str
    cite: str
    summary: str
    attribute: Attribute
    higher_is_better: bool
    bounds: tuple[float, float]
    rank_only: bool
    needs: frozenset[Need]
    undefined: str
    version: int
    test: Test | None
    formula: str
    reading: str
    caveats: Mapping[str, str]
    presets: Mapping[str, Mapping[str, Any] | str]
    tolerance: float | None
    welcomes: frozenset[Need]


@dataclasses.dataclass(frozen=True)
class FillTraits:
    """What stands in for removed pixels, and in which space that is meant."""

    name: str
    summary: str
    space: Literal["pixels", "inputs"]


@dataclasses.dataclass(frozen=True)
class ConditionTraits:
    """What a condition does to a picture, who used it, and whether it needs a second picture for each."""

    name: str
    cite: str
    summary: str
    partner: bool
    version: int
