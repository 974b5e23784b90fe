"""The files that `snellen new` writes: a method or metric that works as it is, and its test."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from snellen.errors import SnellenError, nearest, shorten
from snellen.plugins.registry import METHODS, METRICS

KINDS = ("method", "metric")

METHOD = '''"""The saliency method {name}."""

from __future__ import annotations

from dataclasses import dataclass

from snellen.plugins.registry import method
from snellen.types import Passes


@method(
    "{name}",
    cite="own",  # where it comes from: a key, or a title
    signed=True,  # maps may hold negative values
    complete=False,  # a map sums to the rise of the logit from the mean image
    class_specific=True,  # another target gives another map
    deterministic=True,  # the seed does not matter
    # What it needs beside outputs: "gradients", "layer", "relu", "training-data";
    # set() where a black box will do.
    needs={{"gradients"}},
)
@dataclass(frozen=True)
class {title}:
    """Input times gradient, as a start: say here what the number of a pixel is."""

    scale: float = 1.0
    """A setting, which must have a default.

    On the command line: `{file}:{title}(scale=2)`.
    """

    def passes(self, size, classifier):
        """The cost of one image of this height and width, in passes of the model."""
        return Passes(forward=1, backward=1)

    def __call__(self, classifier, inputs, targets, *, rng):
        """One number per pixel, images×height×width.

        `inputs` are normalised, images×channels×height×width.
        `classifier.logits(inputs)` and `classifier.gradient(inputs, targets)` run the
        model; `rng.normal("noise", (height, width))` draws for each image.
        """
        gradient, _ = classifier.gradient(inputs, targets)
        return self.scale * (inputs * gradient).sum(dim=1)
'''

METHOD_TEST = '''"""Tests of the saliency method {name}."""

import pytest
import torch
from snellen.classifier import Classifier
from snellen.plugins.checks import checks
from snellen.types import Rng

from {module} import {title}

RULES = checks({title}())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_contract(rule):
    rule.run()


def test_linear_model_by_hand():
    """A linear model's gradient is its weights: each pixel gets pixel times weight."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 2 * 2, 2))
    pixels = torch.arange(12.0).view(1, 3, 2, 2) / 12
    plugin, rng = {title}(), Rng(0, ("image",))
    maps = plugin(Classifier(model), pixels, torch.tensor([1]), rng=rng)
    expected = (pixels * model[1].weight[1].view(1, 3, 2, 2)).sum(dim=1)
    torch.testing.assert_close(maps, expected.detach())
'''

METRIC = '''"""The metric {name}."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from snellen.metrics.requirements import require_truth
from snellen.plugins.registry import metric
from snellen.types import Passes


@metric(
    "{name}",
    cite="own",  # where it comes from: a key, or a title
    attribute="input-sensitivity",  # of the saliency card, which it measures
    higher_is_better=True,
    bounds=(0.0, 1.0),  # the lowest and the highest possible score
    rank_only=False,  # scores depend on the order of the pixels alone
    # What it needs beside maps: "truth" (masks), "explain" (the method again),
    # "gradients"; set() where nothing.
    needs={{"truth"}},
    undefined="the mask is empty or the map is zero",  # in words, when a score is NaN
)
@dataclass(frozen=True)
class {title}:
    """Share of the map inside the mask, as a start: say here what the number is."""

    power: float = 1.0
    """A setting, which must have a default.

    On the command line: `{file}:{title}(power=2)`.
    """

    def passes(self, size, explain, classifier):
        """The cost of one image, in passes; `explain` is the cost of one map."""
        return Passes()

    def __call__(self, case, *, rng):
        """One number per image, NaN where undefined.

        `case` has maps, inputs, targets, truth, classifier, and `explain`, which runs
        the same method again.
        """
        truth = require_truth(case, "{name}")
        sizes = case.maps.abs() ** self.power
        inside, total = (sizes * truth).sum(dim=(1, 2)), sizes.sum(dim=(1, 2))
        is_defined = truth.flatten(1).any(dim=1) & (total > 0)
        return torch.where(is_defined, inside / total, torch.nan)
'''

METRIC_TEST = '''"""Tests of the metric {name}."""

import pytest
import snellen
import torch
from snellen.plugins.checks import checks

from {module} import {title}

RULES = checks({title}())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_contract(rule):
    rule.run()


def test_four_pixels_by_hand():
    """Of 1 + 2 + 3 + 4, the mask covers the pixels 3 and 4: seven tenths."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 2 * 2, 2))
    maps = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    masks = torch.tensor([[[False, False], [True, True]]])
    images = torch.rand(1, 3, 2, 2)
    scores = snellen.score({title}(), model, images, maps, 1, truth=masks)
    assert float(scores[0]) == pytest.approx(0.7)
'''


@dataclass(frozen=True, kw_only=True)
class NewPlugin:
    """The names of a new method or metric."""

    kind: str
    """"method" or "metric"."""
    name: str
    """Lower-case words joined by hyphens, such as bright-edges."""

    def __post_init__(self) -> None:
        """Refuses names that Snellen or Python cannot use."""
        if self.kind not in KINDS:
            raise SnellenError(
                f"`snellen new` writes a method or a metric, not a '{shorten(self.kind)}'{nearest(self.kind, KINDS)}"
            )
        owner = f"the name '{shorten(self.name)}'"
        if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", self.name):
            separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.name).lower()
            hyphenated = re.sub(r"[^a-z0-9]+", "-", separated).strip("-").lstrip("-0123456789")
            hint = f", such as '{shorten(hyphenated)}'" if hyphenated else ", such as bright-edges"
            raise SnellenError(f"{owner} must be lower-case words joined by hyphens{hint}")
        for kind, registry in (("method", METHODS), ("metric", METRICS)):
            if self.name in registry:
                raise SnellenError(f"{owner} is taken by a {kind}; choose another name")
        is_module = self.module in sys.stdlib_module_names or importlib.util.find_spec(self.module) is not None
        if keyword.iskeyword(self.module) or (is_module and not Path(self.file).exists()):
            raise SnellenError(f"{owner} would give the file {self.file}, a name that Python uses; choose another name")

    @property
    def module(self) -> str:
        """The name in Python: bright_edges."""
        return self.name.replace("-", "_")

    @property
    def title(self) -> str:
        """The name of the class: BrightEdges."""
        return "".join(word.capitalize() for word in self.name.split("-"))

    @property
    def file(self) -> str:
        """The name of the file: bright_edges.py."""
        return f"{self.module}.py"

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Writes the file and its test into a folder, and never over a file that exists."""
        code, test = (METHOD, METHOD_TEST) if self.kind == "method" else (METRIC, METRIC_TEST)
        paths = folder / self.file, folder / f"test_{self.file}"
        if present := [str(path) for path in paths if path.exists() or path.is_symlink()]:
            raise SnellenError(f"'{present[0]}' exists and is not overwritten; choose another name or another --out")
        names = {"name": self.name, "module": self.module, "title": self.title, "file": self.file}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path, text in zip(paths, (code, test), strict=True):
                with open(path, "x", encoding="utf-8") as file:
                    file.write(text.format(**names))
        except OSError as problem:
            raise SnellenError(f"'{folder}' cannot be written to ({problem.strerror}); choose another --out") from None
        return paths
