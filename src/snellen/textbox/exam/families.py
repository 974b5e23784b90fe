"""Families of methods: what their maps are made of, so that a page of fifty methods can be read."""

from __future__ import annotations

from collections.abc import Iterable

FAMILIES = {
    "Slopes": "How much the model's output would change if a pixel changed a little.",
    "Shares": "How much of the output each pixel accounts for, compared with a picture without it.",
    "Relevance": "The output is handed back through the network, layer by layer, down to the pixels.",
    "Coarse maps": "Where the last layers of the network are active, enlarged to the size of the picture.",
    "Trials": "Parts of the picture are hidden, again and again, and the model is asked what it thinks now.",
    "Attention": "What a transformer's own attention looks at.",
    "Other methods": "Methods from outside Snellen.",
    "Controls": "Maps that know nothing about the model. A method worth using is better than all of them.",
}
"""Each with what its maps are made of, in words for everybody."""

_MEMBERS = {
    "Slopes": "gradient smoothgrad smoothgrad-squared vargrad deconvnet guided-backprop",
    "Shares": "input-x-gradient integrated-gradients blur-ig guided-ig gradient-shap xrai",
    "Relevance": "deep-taylor lrp-z lrp-epsilon lrp-alpha1-beta0 lrp-alpha2-beta1 deeplift-rescale deeplift-reveal-cancel "
    "deepshap transformer-attribution",
    "Coarse maps": "cam grad-cam grad-cam++ xgrad-cam hires-cam layer-cam eigen-cam score-cam ablation-cam guided-grad-cam",
    "Trials": "occlusion rise lime lime-lasso kernel-shap extremal-perturbation meaningful-perturbation iba sis sis-removal",
    "Attention": "attention-rollout",
}
_FAMILY = {name: family for family, names in _MEMBERS.items() for name in names.split()}


def plain_name(label: str) -> str:
    """Of a method: its label without settings.

    >>> plain_name("lrp-epsilon(epsilon=1)"), plain_name("grad-cam@kim2022")
    ('lrp-epsilon', 'grad-cam')
    """
    return label.partition("(")[0].partition("@")[0]


def family(label: str) -> str:
    """Of a method that is no control, by its label.

    >>> family("lrp-epsilon(epsilon=1)"), family("mine:Method")
    ('Relevance', 'Other methods')
    """
    return _FAMILY.get(plain_name(label), "Other methods")


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Every label without its settings, where that leaves no doubt which is meant.

    >>> short_names(["lrp-epsilon(epsilon=1)", "rise(masks=9)", "rise"])
    {'lrp-epsilon(epsilon=1)': 'lrp-epsilon', 'rise(masks=9)': 'rise(masks=9)', 'rise': 'rise'}
    """
    known = list(labels)
    bare = [plain_name(label) for label in known]
    return {label: name if bare.count(name) == 1 else label for label, name in zip(known, bare, strict=True)}
