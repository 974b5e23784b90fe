"""The traits of plug-ins: what a decorator states about a method, metric, fill or condition, and the terms of the card."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Need = Literal[
    "gradients", "layer", "relu", "training-data", "truth", "labels", "explain", "recipe", "checkpoints"
]  # fmt: skip
"""What a plug-in requires of the classifier, the samples or the run.

`recipe`: variants of the classifier have to be trained. `checkpoints`: saved states of its training are needed.
"""

OutputNeed = Literal["probability", "decision", "classes"]
"""What a plug-in requires of its target: a probability, a decision that can change, or others to compare it with.

A class and a label have all three; a number has none of them.
"""

Family = Literal[
    "gradient", "path", "relevance-propagation", "class-activation", "perturbation", "attention", "control", "other"
]  # fmt: skip
"""What the maps of a method are computed from.

`path`: gradients summed along a path from a baseline image. `perturbation`: outputs for images with parts removed.
`control`: nothing about the classifier, or a real map whose information was destroyed on purpose.
"""

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
"""The range of a setting that names a layer; which layers there are depends on the classifier."""

Range = tuple[Any, ...] | Literal["earlier layers"]
"""The values of a setting that are worth trying besides the default, as written in settings."""


TESTED_ON = "planted and pretrained networks"
"""On which networks the contract suite tests the traits of a method, unless the method accepts fewer."""


@dataclasses.dataclass(frozen=True)
class TraitEvidence:
    """How closely a trait was measured to hold on pretrained networks.

    `benchmarks/traits.py` measures it, completeness with default settings. A method of another package may state a trait
    without evidence.
    """

    within: float
    """The tolerance: the largest relative error that still counts as holding."""
    images: int
    """How many images were measured."""
    networks: int
    """On how many networks they were measured."""
    missed: int = 0
    """How many of the images were off by more than `within`."""

    def in_words(self, whole: str) -> str:
        """The condition under which the trait holds; `whole` names what the error is relative to."""
        count = f"{self.images - self.missed} of {self.images}" if self.missed else f"all {self.images}"
        return f"within {100 * self.within:g} % of {whole} on {count} images of {self.networks} pretrained networks"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodTraits:
    """The traits of a method with its default settings; the contract suite tries to disprove each of them."""

    name: str
    """How settings and the command line call the method."""
    cite: str
    """Key of the defining work in `snellen.plugins.citations`."""
    summary: str
    """The first paragraph of the docstring."""
    family: Family = "other"
    """What the maps are computed from."""
    signed: bool
    """Maps may hold negative values."""
    complete: TraitEvidence | bool = False
    """A map sums to the rise of the output from the baseline to the image."""
    class_specific: bool = False
    """Another target gives another map."""
    deterministic: bool = False
    """The seed does not matter."""
    control: bool = False
    """The maps hold no information about the classifier, or less than those of another method."""
    needs: frozenset[Need] = frozenset()
    """What the method requires of the classifier, the samples or the run."""
    needs_output: OutputNeed | None = None
    """What the method requires of its target; None for nothing."""
    implementation_invariant: TraitEvidence | bool = False
    """Networks with other weights that compute the same function get the same map."""
    at_most: bool = False
    """`passes` is an upper bound, since the cost depends on the image."""
    caveats: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Known failures by the key of the work that showed them."""
    presets: Mapping[str, Mapping[str, Any] | str] = dataclasses.field(default_factory=dict)
    """Settings by the key of the work that used them; a text names the method that the work really ran."""
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    """By setting, the values that are worth trying besides the default."""
    version: int = 1
    """Raised when maps change; maps of another version are not used again."""
    tested_on: str = TESTED_ON
    """On which networks the contract suite tests the traits, in words."""
    listed: bool = True
    """False for a frame that means nothing without settings, and for a positive control: both are built by name, but not
    among the methods of a list."""

    @property
    def positive(self) -> bool:
        """Whether it is a positive control: its maps are made of the truth (see `MadeOfTruth`)."""
        return "truth" in self.needs

    @property
    def in_words(self) -> str:
        """The traits that hold as a comma-separated list, each with the condition under which it was measured."""
        traits = {
            "deterministic": self.deterministic,
            _with_evidence("complete", self.complete, "the rise"): self.complete,
            "class-specific": self.class_specific,
            _with_evidence("implementation-invariant", self.implementation_invariant, "the largest value"): (
                self.implementation_invariant
            ),
            "signed": self.signed,
        }
        return ", ".join(name for name, holds in traits.items() if holds) or "none"


def _with_evidence(name: str, trait: TraitEvidence | bool, whole: str) -> str:
    return f"{name} ({trait.in_words(whole)})" if isinstance(trait, TraitEvidence) else name


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricTraits:
    """The traits of a metric; the contract suite tries to disprove them."""

    name: str
    """How settings and the command line call the metric."""
    cite: str
    """Key of the defining work in `snellen.plugins.citations`."""
    summary: str
    """The first paragraph of the docstring."""
    attribute: Attribute
    """The attribute of the saliency card that it measures."""
    higher_is_better: bool
    """Whether a better map has a higher score."""
    bounds: tuple[float, float]
    """Lowest and highest possible score."""
    rank_only: bool = False
    """Scores depend on the order of the pixels alone."""
    needs: frozenset[Need] = frozenset()
    """What the metric requires of the classifier, the samples or the run."""
    needs_output: OutputNeed | None = None
    """What the metric requires of the target; None for nothing."""
    undefined: str = "never"
    """In words, when a score is NaN."""
    version: int = 1
    """Raised when scores change; scores of another version are not used again."""
    test: Test | None = None
    """The test of the saliency card that the metric answers with default settings."""
    formula: str = ""
    """The score as one line of mathematics."""
    reading: str = ""
    """Which of several published definitions is the default, and which setting gives the other."""
    caveats: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Known failures by the key of the work that showed them."""
    presets: Mapping[str, Mapping[str, Any] | str] = dataclasses.field(default_factory=dict)
    """Settings by the key of the work that used them; a text names the metric that the work really computed."""
    tolerance: float | None = None
    """Makes the metric an axiom: a method no farther than this from the best value passes, whatever the controls score."""
    optional_needs: frozenset[Need] = frozenset()
    """What it uses where available and does without otherwise."""


@dataclasses.dataclass(frozen=True)
class FillTraits:
    """What replaces removed pixels, and whether its values are pixels or normalised inputs."""

    name: str
    """How settings and the command line call the fill."""
    summary: str
    """The first paragraph of the docstring."""
    space: Literal["pixels", "inputs"]
    """Whether its values are pixels in [0, 1] or normalised inputs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionTraits:
    """What a condition does to an image, who used it, and whether it needs a second image for each."""

    name: str
    """How settings and the command line call the condition."""
    cite: str
    """Key of the work that used it in `snellen.plugins.citations`."""
    summary: str
    """The first paragraph of the docstring."""
    partner: bool
    """Whether it mixes each image with another image of the run."""
    version: int
    """Raised when the changed images become others."""
