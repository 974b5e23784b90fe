"""The ten attributes of the saliency card."""

from __future__ import annotations

CATEGORIES: dict[str, dict[str, tuple[str, str]]] = {
    "methodology": {
        "determinism": ("Determinism", "same map every time?"),
        "hyperparameter-dependence": ("Hyperparameters", "what choices move the map?"),
        "model-agnosticism": ("Model agnosticism", "which models can it explain?"),
        "computational-efficiency": ("Cost", "what does one map take?"),
        "semantic-directness": ("Directness", "what does a bright pixel mean?"),
    },
    "sensitivity": {
        "input-sensitivity": ("Input", "does it follow what changes the output?"),
        "label-sensitivity": ("Label", "does it change with the class?"),
        "model-sensitivity": ("Model", "does it change when the model does?"),
    },
    "perceptibility": {
        "minimality": ("Minimality", "how little does it show?"),
        "perceptual-correspondence": ("Correspondence", "does it point where people would?"),
    },
}
"""The ten attributes of the saliency card under its three headings, each with its question in plain words."""
