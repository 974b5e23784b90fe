"""How far the promise of verdicts reaches: images in classes, failures too rare to be seen, and the margin of alike maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import populations
from snellen.verdicts import MARGIN
from snellen.verdicts.paired_difference import PairedDifference
from snellen.verdicts.rare_failures import rare_failure_note
from snellen.verdicts.rule import against_controls, decide_verdict
from snellen.verdicts.sampling import MINIMUM_CLASSES, MINIMUM_GROUPS

Scores = tuple[np.ndarray, np.ndarray]
FAMILIES = ((1, 1), (8, 4))


def judged(scores: Scores, seed: int, clusters: np.ndarray | None = None) -> list[tuple[PairedDifference, ...]]:
    own, rivals = scores
    return against_controls(own, rivals, [f"control {at}" for at in range(rivals.shape[1])], seed=seed, clusters=clusters)


def passes(differences: Sequence[tuple[PairedDifference, ...]], unit: str = "image") -> list[int]:
    return [at for at, comparison in enumerate(differences) if decide_verdict(comparison, unit)[0] == "pass"]


def percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def class_rates(classes: int, each: int, family: tuple[int, int], draws: int, *, whole: bool, these: bool) -> float:
    """How often some method passes that is no better: drawing whole classes or images, on these classes or on all."""
    rng, wrong = np.random.default_rng(1), 0
    for at in range(draws):
        own, rivals, of = populations.in_classes(rng, classes, each, *family, these=these)
        wrong += bool(passes(judged((own, rivals), at, of if whole else None), "class" if whole else "image"))
    return wrong / draws


def class_lines(draws: int) -> list[list[str]]:
    """False passes by number of classes; below `MINIMUM_CLASSES` the promise is about these classes."""
    lines = [
        [
            "classes × images",
            "verdicts are about",
            *(f"{m} × {c}" for m, c in FAMILIES),
            "images drawn, for all classes, 8 × 4",
        ]
    ]
    for classes, each in ((2, 50), (5, 6), (5, 20), (5, 40), (10, 10), (20, 6), (20, 12), (50, 4)):
        few = classes < MINIMUM_CLASSES
        cells = [percent(class_rates(classes, each, family, draws, whole=not few, these=few)) for family in FAMILIES]
        before = percent(class_rates(classes, each, (8, 4), max(20, draws // 3), whole=False, these=False))
        lines.append([f"{classes} × {each}", "these classes" if few else "all classes", *cells, before])
        print(lines[-1], flush=True)
    return lines


def group_lines(draws: int) -> list[list[str]]:
    """False passes and true ones where groups are drawn as a whole, from the least number on."""
    lines = [
        ["groups × images", *(f"false passes, {m} × {c}" for m, c in FAMILIES), "pass at +1 SD", "at +1.5 SD", "at +2 SD"]
    ]
    for groups, each in ((MINIMUM_GROUPS, 6), (15, 6), (20, 6), (30, 6)):
        cells = [percent(class_rates(groups, each, family, draws, whole=True, these=False)) for family in FAMILIES]
        for effect in (1.0, 1.5, 2.0):
            rng, right, repeats = np.random.default_rng(2), 0, max(20, draws // 10)
            for at in range(repeats):
                own, rivals, of = populations.in_classes(rng, groups, each, 8, 4)
                right += len(passes(judged((own + effect, rivals), at, of), "group"))
            cells.append(f"{right / repeats / 8:.0%}".replace("%", " %"))
        lines.append([f"{groups} × {each}", *cells])
        print(lines[-1], flush=True)
    return lines


def rare_lines(draws: int) -> list[list[str]]:
    """False passes where failures are rare, and how many of them carry the note."""
    lines = [["failures", "images", *(f"false passes, {m} × {c}" for m, c in FAMILIES), "with the note, 8 × 4"]]
    for share, numbers in ((0.05, (30, 60, 100, 200)), (0.01, (30, 100, 200))):
        for images in numbers:
            cells, noted, total = [], 0, 0
            for family in FAMILIES:
                rng, wrong = np.random.default_rng(3), 0
                for at in range(draws):
                    own, rivals = populations.rare_failures(rng, images, *family, share=share)
                    differences = judged((own, rivals), at)
                    those = passes(differences)
                    wrong += bool(those)
                    if family == FAMILIES[-1]:
                        total += len(those)
                        noted += sum(
                            bool(rare_failure_note(own[:, method], rivals, differences[method], -np.inf, "image"))
                            for method in those
                        )
                cells.append(percent(wrong / draws))
            lost = f"{1 / share - 1:.0f}"
            noted_share = f"{noted / total:.0%}".replace("%", " %") if total else "–"
            lines.append([f"−{lost} on {share * 100:g} %", f"{images}", *cells, noted_share])
            print(lines[-1], flush=True)
    return lines


def alike_lines(draws: int) -> list[list[str]]:
    """How often some method at the margin is called alike, beside how often the estimated margin alone would do it."""
    kinds: dict[str, Callable] = {
        "normal": populations.normal,
        "log-normal": populations.tail_up,
        "heavy tails (t, 3 degrees)": populations.heavy,
    }
    sizes = (30, 100, 300)
    lines = [["scores", *(f"n = {n}, {m} × {c}" for n in sizes for m, c in FAMILIES), "margin as estimated, n = 100, 8 × 4"]]
    for name, draw in kinds.items():
        cells, before = [], 0
        for images in sizes:
            for family in FAMILIES:
                rng, wrong = np.random.default_rng(4), 0
                for at in range(draws):
                    own, rivals = populations.at_the_margin(draw, rng, images, *family, MARGIN)
                    differences = judged((own, rivals), at)
                    wrong += any(difference.alike for some in differences for difference in some)
                    if images == 100 and family == FAMILIES[-1]:
                        estimate = MARGIN * np.sqrt((own.var(axis=0, ddof=1) + rivals[:, 0].var(ddof=1)) / 2)
                        before += any(some[0].high <= limit for some, limit in zip(differences, estimate, strict=True))
                cells.append(percent(wrong / draws))
        lines.append([name, *cells, percent(before / draws)])
        print(lines[-1], flush=True)
    return lines
