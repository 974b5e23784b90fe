"""Families of methods, by which a page of fifty methods is divided."""

from __future__ import annotations

from collections.abc import Iterable

from snellen.plugins.registry import METHODS, Family, traits

_TITLES: dict[Family, tuple[str, str]] = {
    "gradient": ("Gradients", "How much the model's output would change if a pixel changed a little."),
    "path": ("Contributions", "How much of the output each pixel accounts for, compared with an image without it."),
    "relevance-propagation": (
        "Relevance propagation",
        "The output is distributed backwards through the network, layer by layer, down to the pixels.",
    ),
    "class-activation": (
        "Class activation maps",
        "Where the last layers of the network are active, enlarged to the size of the image.",
    ),
    "perturbation": (
        "Perturbations",
        "Parts of the image are hidden, again and again, and the change of the output is measured.",
    ),
    "attention": ("Attention", "What a transformer's own attention weighs most."),
    "other": ("Other methods", "Methods that state no family."),
    "control": (
        "Controls",
        "Maps that contain no information about the model. A method worth using is better than all of them.",
    ),
}

FAMILIES = dict(_TITLES.values())
"""Title of each family, and in plain words what its maps are made of."""


def plain_name(label: str) -> str:
    """Of a method: its label without settings.

    >>> plain_name("lrp-epsilon(epsilon=1)"), plain_name("grad-cam@kim2022")
    ('lrp-epsilon', 'grad-cam')
    """
    return label.partition("(")[0].partition("@")[0]


def family(label: str) -> str:
    """The title of a method's family, by the method's label; a name that is not registered is of no family.

    >>> family("lrp-epsilon(epsilon=1)"), family("mine:Method")
    ('Relevance propagation', 'Other methods')
    """
    name = plain_name(label)
    declared: Family = traits(METHODS[name]).family if name in METHODS else "other"
    return _TITLES[declared][0]


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Every label without its settings, where that leaves no doubt which is meant.

    >>> short_names(["lrp-epsilon(epsilon=1)", "rise(masks=9)", "rise"])
    {'lrp-epsilon(epsilon=1)': 'lrp-epsilon', 'rise(masks=9)': 'rise(masks=9)', 'rise': 'rise'}
    """
    plain = {label: plain_name(label) for label in labels}
    names = list(plain.values())
    return {label: name if names.count(name) == 1 else label for label, name in plain.items()}
