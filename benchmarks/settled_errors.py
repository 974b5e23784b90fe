"""What looking at verdicts on the way costs and risks: simulated scores of known effect, judged by looks and by one rule.

    python benchmarks/settled_errors.py [--draws 400] [--only errors,cost] [--write]

Every simulated test goes through all of its looks, as with `--until settled`: what a look settles is computed no further.
Beside it stands the verdict of the fixed rule on all images of the same test. With `--write` the tables go into
docs/verdicts.md, between its markers.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import populations
from populations import POPULATIONS
from snellen.runs.record import MetricSpec
from snellen.runs.schedule import Until
from snellen.verdicts.rule import OUTRIGHT, against_controls, control_win_share, decide_verdict
from snellen.verdicts.sequential import Looks, MetricLooks, MetricScores
from verdicts import PAGE, put, row, rule

METRIC = MetricSpec(
    label="simulated",
    name="simulated",
    params={},
    attribute="minimality",
    higher_is_better=True,
    bounds=(None, None),
    undefined="never",
    summary="",
    cite="",
    version=1,
)
FAMILIES = ((1, 1), (8, 4))
IMAGES = (60, 300)


@dataclass(frozen=True)
class Simulated:
    """One simulated test: verdicts by looks and by the fixed rule, and the share of scores that looks needed."""

    looked: list[str]
    whole: list[str]
    share: float


def simulate(own: np.ndarray, rivals: np.ndarray, seed: int, clusters: np.ndarray | None = None) -> Simulated:
    """Takes all looks that the scores of a test need; images come in the order of the rows."""
    images, methods, controls = len(own), own.shape[1], rivals.shape[1]
    names, others = [f"method {at}" for at in range(methods)], [f"control {at}" for at in range(controls)]
    unit = "image" if clusters is None else "group"
    looks = Looks.plan(images)
    test = MetricLooks(METRIC, methods=names, controls=others, looks=looks, until=Until(), seed=seed, unit=unit)
    stop = np.zeros(methods + controls, dtype=np.int64)
    place = np.arange(images)
    both = np.concatenate([own, rivals], axis=1)
    while (size := test.next_size) is not None:
        needs = set(test.needs())
        stop[[at for at, name in enumerate([*names, *others]) if name in needs]] = size
        done = place[:, None] < stop
        scores = np.where(done, both, np.nan)
        if not test.look(
            MetricScores(
                methods=scores[:, :methods],
                controls=scores[:, methods:],
                method_done=done[:, :methods],
                control_done=done[:, methods:],
                place=place,
                clusters=clusters,
            )
        ):
            raise RuntimeError("a look had not the scores that it asked for")
    result = test.result()
    looked = ["not counted" if result.outright else decide_verdict(against, unit)[0] for against in result.differences]
    outright = control_win_share(own, rivals) > OUTRIGHT
    differences = against_controls(own, rivals, others, seed=seed, clusters=clusters)
    whole = ["not counted" if outright else decide_verdict(against, unit)[0] for against in differences]
    return Simulated(looked, whole, float(stop.sum()) / (images * len(stop)))


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def errors(draws: int) -> list[str]:
    """Tests in which some method passes although none is better than the first control, taking every look."""
    heads = [f"{m} × {c}, n = {n}" for n in IMAGES for m, c in FAMILIES]
    lines = [row("scores", *(f"{head}: looks" for head in heads), *(f"{head}: at the end" for head in heads))]
    lines.append(rule(1 + 2 * len(heads)))
    worst = 0.0
    for name in POPULATIONS:
        looked, whole = [], []
        for images in IMAGES:
            for family in FAMILIES:
                rng = np.random.default_rng(1)
                repeats = draws if family == FAMILIES[0] else max(20, draws // 3)
                outcomes = [simulate(*populations.scores(name, rng, images, *family), at) for at in range(repeats)]
                looked.append(sum("pass" in outcome.looked for outcome in outcomes) / repeats)
                whole.append(sum("pass" in outcome.whole for outcome in outcomes) / repeats)
        worst = max(worst, *looked)
        lines.append(row(name, *map(percent, looked), *map(percent, whole)))
        print(lines[-1], flush=True)
    error = 1.96 * math.sqrt(worst * (1 - worst) / draws)
    return [
        *lines,
        "",
        f"{draws:,} simulated tests per number with one method, {max(20, draws // 3):,} with eight; the worst by looks is "
        f"{100 * worst:.1f} ± {100 * error:.1f} %.",
    ]


def limits(draws: int) -> list[str]:
    """The same where images come in groups, and where failures are rare."""
    lines = [row("scores", "images", "1 × 1: looks", "8 × 4: looks", "1 × 1: at the end", "8 × 4: at the end"), rule(6)]

    def of_groups(groups: int, each: int) -> Callable[[np.random.Generator, tuple[int, int]], tuple[np.ndarray, ...]]:
        def draw(rng: np.random.Generator, family: tuple[int, int]) -> tuple[np.ndarray, ...]:
            own, rivals, of = populations.in_classes(rng, groups, each, *family)
            order = rng.permutation(len(of))  # as a run draws its images, not group by group
            return own[order], rivals[order], of[order]

        return draw

    def of_failures(share: float, images: int) -> Callable[[np.random.Generator, tuple[int, int]], tuple[np.ndarray, ...]]:
        return lambda rng, family: populations.rare_failures(rng, images, *family, share=share)

    cases = {
        ("20 groups of 6, whole groups drawn", 120): of_groups(20, 6),
        ("50 groups of 6, whole groups drawn", 300): of_groups(50, 6),
        ("−19 on 5 % of images", 100): of_failures(0.05, 100),
        ("−19 on 5 % of images", 300): of_failures(0.05, 300),
        ("−99 on 1 % of images", 300): of_failures(0.01, 300),
    }
    for (name, images), draw in cases.items():
        looked, whole = [], []
        for family in FAMILIES:
            rng, repeats = np.random.default_rng(2), draws if family == FAMILIES[0] else max(20, draws // 3)
            outcomes = [simulate(*parts[:2], at, *parts[2:]) for at in range(repeats) if (parts := draw(rng, family))]
            looked.append(sum("pass" in outcome.looked for outcome in outcomes) / repeats)
            whole.append(sum("pass" in outcome.whole for outcome in outcomes) / repeats)
        lines.append(row(name, str(images), *map(percent, looked), *map(percent, whole)))
        print(lines[-1], flush=True)
    return lines


def cost(draws: int) -> list[str]:
    """What looks compute of 500 images, how often they settle what all images settle, and how often they differ."""
    effects = (0.0, 0.1, 0.3, 0.5, 0.8, 1.2, 2.0)
    lines = [
        row(
            "effect",
            "scores computed",
            "pass by looks",
            "pass by all images",
            "another verdict",
            "pass, then fail or the reverse",
        ),
        rule(6),
    ]
    repeats = max(10, draws // 12)
    for effect in effects:
        rng = np.random.default_rng(3)
        outcomes = [simulate(*populations.scores("normal", rng, 500, 8, 4, effect), at) for at in range(repeats)]
        pairs = Counter(pair for outcome in outcomes for pair in zip(outcome.looked, outcome.whole, strict=True))
        total = pairs.total()
        lines.append(
            row(
                f"{effect:+g} SD" if effect else "none",
                percent(sum(outcome.share for outcome in outcomes) / repeats, 0),
                percent(sum(count for (looked, _), count in pairs.items() if looked == "pass") / total, 0),
                percent(sum(count for (_, whole), count in pairs.items() if whole == "pass") / total, 0),
                percent(sum(count for (looked, whole), count in pairs.items() if looked != whole) / total),
                percent(sum(count for pair, count in pairs.items() if set(pair) == {"pass", "fail"}) / total),
            )
        )
        print(lines[-1], flush=True)
    return [*lines, "", f"Normal scores, 8 × 4, {repeats} simulated tests per effect; the other controls are far worse."]


TABLES: Mapping[str, Callable[[int], list[str]]] = {"errors": errors, "limits": limits, "cost": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400, help="simulated tests per number with one method")
    parser.add_argument("--write", action="store_true", help="write docs/verdicts.md")
    parser.add_argument("--only", default=",".join(TABLES), help="comma-separated names of tables; all of them by default")
    options = parser.parse_args()
    for name in (part.strip() for part in options.only.split(",")):
        if name not in TABLES:
            raise SystemExit(f"--only {name}: there is no such table; there are {', '.join(TABLES)}")
        lines = TABLES[name](options.draws)
        print(f"\n{name}\n" + "\n".join(lines), flush=True)
        if options.write:
            PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), f"looks: {name}", lines), encoding="utf-8")


if __name__ == "__main__":
    main()
