"""Every trait of every method, tried on real pretrained networks; which traits are claimed follows from this table.

    python benchmarks/traits.py [--images 10] [--only NAME ...] [--traits NAME ...] [--networks NAME ...] [--defaults]
                                [--cifar WEIGHTS.safetensors ... --pictures CIFAR.npz] [--csv FILE] [--merge FILE ...]

The networks are those that come with Snellen: digits, EfficientNet-Lite0 (depthwise convolutions) and the seven of
TextBox; `--cifar` adds residual networks from files. Each trait is a number per picture, explained for the predicted class:

complete                  the share of the output's rise that the map misses (the metric `completeness`)
deterministic             how far another seed moves the map, in shares of its largest value
class-specific            how far the map of the second class is from that of the first
implementation-invariant  the most that the map moves when the same function is written with other weights; claims only
signed                    the lowest value, in shares of the largest
at-most                   passes beyond those that were planned

Methods that claim to be complete run with their defaults, others with the cheaper settings of the contract suite, unless
`--defaults` is said. `--csv` keeps one row per picture; `--merge` prints the table of such files and measures nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import cifar_resnet
from neighbours import table
from real_networks import Real, names, on, real
from snellen.errors import SnellenError
from snellen.plugins.registry import METHODS, label, traits
from snellen.types import Method
from trait_figures import CHEAPER, Tried

TOLERANCES = {
    "complete": 0.05,
    "deterministic": 0.0,
    "class-specific": 0.0,
    "implementation-invariant": 1e-3,
    "signed": 0.0,
    "at-most": 0.0,
}
"""Beyond this a trait does not hold for a picture; class-specific asks for the opposite: maps must move."""


MEASURES: dict[str, Callable[[Tried], Tensor]] = {
    "complete": Tried.gap,
    "deterministic": Tried.moved_by_seed,
    "class-specific": Tried.moved_by_target,
    "implementation-invariant": Tried.moved_by_rewriting,
    "signed": Tried.negative,
    "at-most": Tried.overspent,
}


def chosen(name: str, *, defaults: bool) -> Method:
    """The method as it is tried."""
    return METHODS.build(name, None if defaults or traits(METHODS[name]).complete else CHEAPER.get(name))


def measured(method: Method, subject: Real, names: list[str]) -> pd.DataFrame:
    """One row per trait and picture."""
    tried = Tried(method, subject)
    facts = traits(method)
    claimed = {trait: bool(getattr(facts, trait.replace("-", "_"))) for trait in names}
    rows = [
        (facts.name, label(method), subject.name, trait, claimed[trait], sample, float(value))
        for trait in names
        if claimed[trait] or trait != "implementation-invariant"
        for sample, value in zip(subject.samples.ids, MEASURES[trait](tried), strict=True)
    ]
    return pd.DataFrame(rows, columns=["method", "settings", "network", "trait", "claimed", "picture", "value"])


def summary(rows: pd.DataFrame) -> list[str]:
    """A Markdown table: one line per method, trait and network."""
    lines = []
    for (name, trait, network), values in rows.groupby(["method", "trait", "network"], sort=False):
        value = values["value"].dropna()
        beyond = (value <= 0 if trait == "class-specific" else value > TOLERANCES[trait]).mean()
        worst = value.min() if trait == "class-specific" else value.max()
        lines.append(
            [
                name, trait, "yes" if values["claimed"].any() else "no", network, str(len(value)), f"{worst:.2g}",
                f"{value.median():.2g}", f"{beyond:.0%}",
            ]
        )  # fmt: skip
    return table(
        "Traits on pretrained networks",
        ["method", "trait", "claimed", "network", "n", "worst", "median", "beyond tolerance"],
        lines,
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--traits", nargs="*", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--networks", nargs="*", default=list(names()))
    parser.add_argument("--cifar", nargs="*", type=Path, default=[])
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--merge", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    if options.merge:
        print("\n".join(summary(pd.concat([pd.read_csv(path) for path in options.merge]))))
        return
    torch.set_num_threads(1)
    tables = []
    for place in [*options.networks, *options.cifar]:
        if isinstance(place, Path):
            classifier = cifar_resnet.read(place)
            subject = on(classifier.name, classifier, cifar_resnet.pictures(options.pictures, options.images))
        else:
            subject = real(place, options.images)
        for name in options.only or METHODS:
            started = time.perf_counter()
            try:
                tables.append(measured(chosen(name, defaults=options.defaults), subject, options.traits))
            except SnellenError as refusal:
                print(f"{subject.name}: {refusal}", file=sys.stderr)
                continue
            print(f"{subject.name}: {name}, {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
            if options.csv:
                pd.concat(tables).to_csv(options.csv, index=False)
    print("\n".join(summary(pd.concat(tables))))


if __name__ == "__main__":
    main()
