"""How often verdicts are wrong, and how often there is one: simulated scores of known effect, judged by the rule.

    python benchmarks/verdicts.py [--draws 2000] [--only classes,alike] [--write]

With `--write` the tables go into docs/verdicts.md, between its markers, and the picture to docs/verdicts-power.svg.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import verdict_limits
from populations import BEHIND, POPULATIONS, scores
from snellen.cards.grades import grade
from snellen.cards.schema import Evidence, Source
from snellen.charts import pictures
from snellen.verdicts import Trust
from snellen.verdicts.against import further_images
from snellen.verdicts.rule import against_controls, verdict_of
from snellen.verdicts.trust import TRUTH, known_truth

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "verdicts.md", DOCS / "verdicts-power.svg"

NUMBERS = (30, 60, 100, 200, 400)
MANY = (800, 1600)
FAMILIES = ((1, 1), (1, 4), (8, 4))
EFFECTS = tuple(round(0.1 * step, 1) for step in range(-10, 16))


def tally(
    name: str, images: int, family: tuple[int, int], draws: int, effect: float = 0.0, seed: int = 1
) -> tuple[dict[str, float], float]:
    """How often a method gets each verdict, and how often any method of a test passes."""
    rng = np.random.default_rng(seed)
    methods, controls = family
    names = [f"control {at}" for at in range(controls)]
    counted: Counter[str] = Counter()
    anyone = 0
    for at in range(draws):
        own, rivals = scores(name, rng, images, methods, controls, effect)
        found = [verdict_of(one)[0] for one in against_controls(own, rivals, names, seed=at)]
        counted.update(found)
        anyone += "pass" in found
    total = counted.total()
    return {verdict: count / total for verdict, count in counted.items()}, anyone / draws


# What is measured --------------------------------------------------------------------------------------------------------


def false_passes(draws: int) -> list[str]:
    """Tests in which some method passes although none is better than the first control."""
    heads = [f"n = {n}, {m} × {c}" for n in (30, 100) for m, c in FAMILIES]
    lines = [row("scores", *heads), rule(1 + len(heads))]
    worst = 0.0
    for name in POPULATIONS:
        rates = [tally(name, n, family, draws)[1] for n in (30, 100) for family in FAMILIES]
        worst = max(worst, *rates)
        lines.append(row(name, *(f"{rate:.1%}".replace("%", " %") for rate in rates)))
        print(lines[-1], flush=True)
    error = 1.96 * math.sqrt(worst * (1 - worst) / draws)
    words = f"{draws:,} simulated tests per number; the worst is {100 * worst:.1f} ± {100 * error:.1f} %."
    return [*lines, "", words]


def power(draws: int) -> dict[int, dict[float, dict[str, float]]]:
    """By number of images and effect, the share of each verdict for 8 methods beside 4 controls with normal scores."""
    found: dict[int, dict[float, dict[str, float]]] = {}
    for n in NUMBERS:
        found[n] = {effect: tally("normal", n, (8, 4), max(20, draws // 20), effect)[0] for effect in EFFECTS}
        print(
            f"power at {n} images: { ({effect: round(one.get('pass', 0), 2) for effect, one in found[n].items()}) }",
            flush=True,
        )
    for n in MANY:
        found[n] = {0.0: tally("normal", n, (8, 4), max(20, draws // 30))[0]}
    return found


def power_lines(found: Mapping[int, Mapping[float, Mapping[str, float]]]) -> list[str]:
    wanted = (0.3, 0.5, 0.8, 1.0, 1.5)
    heads = [f"pass at {effect:+g} SD" for effect in wanted]
    lines = [row("images", *heads, "80 % pass from", "fail at −0.5 SD", "fail at −1 SD", "fail at 0")]
    lines.append(rule(5 + len(wanted)))
    for n, effects in found.items():
        if n in MANY:
            lines.append(row(f"{n:,}", *("" for _ in wanted), "", "", "", share(effects[0.0], "fail")))
            continue
        steps = [effect for effect in effects if effect >= 0]
        chances = [effects[effect].get("pass", 0.0) for effect in steps]
        enough = next((at for at, chance in enumerate(chances) if chance >= 0.8), None)
        if not enough:
            reached = "over 1.5 SD"
        else:
            gap = (0.8 - chances[enough - 1]) / (chances[enough] - chances[enough - 1])
            reached = f"{steps[enough - 1] + gap * (steps[enough] - steps[enough - 1]):.2f} SD"
        cells = [share(effects[effect], "pass") for effect in wanted]
        fails = [share(effects[effect], "fail") for effect in (-0.5, -1.0, 0.0)]
        lines.append(row(f"{n}", *cells, reached, *fails))
    return lines


def advice(draws: int) -> list[str]:
    """How often the advised number of images settles it, when the first images showed exactly what is true."""
    lines = [row("effect", "images so far", "doubtful controls", "advice", "settled by it"), rule(5)]
    for effect, n, rivals in ((0.5, 30, 1), (0.5, 30, 3), (0.3, 100, 1), (0.0, 200, 1), (-0.5, 30, 1)):
        rng = np.random.default_rng(2)
        names = [f"control {at}" for at in range(rivals)]

        def against(values: np.ndarray, seed: int, names: Sequence[str] = names, effect: float = effect):
            found = against_controls(values[:, :1] + effect, values[:, 1:], names, seed=seed)
            return found[0]

        first = rng.normal(size=(n, 1 + rivals))
        exact = np.linalg.qr(first - first.mean(axis=0))[0] * math.sqrt(n - 1)
        more = further_images(against(exact, 0)) or 0
        repeats = max(20, draws // 5)
        settled = sum(
            verdict_of(against(rng.normal(size=(n + more, 1 + rivals)), at))[0] != "inconclusive" for at in range(repeats)
        )
        sign = f"{effect:+g} SD".replace("-", "−") if effect else "none"
        lines.append(row(sign, str(n), str(rivals), f"{more} more", f"{settled / repeats:.0%}".replace("%", " %")))
        print(lines[-1], flush=True)
    return lines


def truth_lines() -> list[str]:
    """What the metrics of the audit weigh by the truth alone."""
    words = {
        "misleads": "prefers wrong maps",
        "blind": "guesses",
        "shape": "goes by a map's shape, not its place",
        "unclear": "not shown to prefer right maps",
    }
    lines = [row("on TextBox", "factor", "metrics"), rule(3)]
    for verdict, factor in TRUTH.items():
        names = sorted(name for name, one in known_truth().items() if one.verdict == verdict)
        lines.append(row(f"{verdict}: {words[verdict]}", f"{factor:g}", ", ".join(f"`{name}`" for name in names)))
    others = sum(one.verdict not in TRUTH for one in known_truth().values())
    return [*lines, row("sees, faint, or not on trial", "1", f"{others} metrics that were on trial, and all others")]


def grade_lines() -> list[str]:
    """The formula of grades at work."""
    source = Source("run", "example", "", "", "")

    def of(*tests: tuple[str, float]) -> str:
        evidence = [
            Evidence("minimality", "", "", verdict, "", source, trust=Trust("", (), 0.0, weight, 1.0, None))
            for verdict, weight in tests
        ]
        found = grade("minimality", evidence)
        return f"{found.share:.2f}, {found.word}"

    cases = {
        "one pass of weight 1": (("pass", 1.0),),
        "one pass of weight 0.2": (("pass", 0.2),),
        "three passes of weight 1": (("pass", 1.0),) * 3,
        "two passes and a fail of weight 1": (("pass", 1.0), ("pass", 1.0), ("fail", 1.0)),
        "two passes of weight 1, a fail of weight 0.2": (("pass", 1.0), ("pass", 1.0), ("fail", 0.2)),
        "one inconclusive of weight 1": (("inconclusive", 1.0),),
        "one fail of weight 1": (("fail", 1.0),),
        "three fails of weight 1": (("fail", 1.0),) * 3,
    }
    return [row("verdicts", "grade"), rule(2), *(row(words, of(*tests)) for words, tests in cases.items())]


# How it is written -------------------------------------------------------------------------------------------------------


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rule(columns: int) -> str:
    return "|---" * columns + "|"


def share(verdicts: Mapping[str, float], verdict: str) -> str:
    return f"{verdicts.get(verdict, 0.0):.0%}".replace("%", " %")


_COLOURS = {30: "#8a6400", 60: "#8c5f0c", 100: "#1f7a68", 200: "#35597c", 400: pictures.INK}
_DASHES = {30: "2 3", 60: "5 3", 100: "8 3 2 3", 200: "10 4", 400: "none"}


def picture(found: Mapping[int, Mapping[float, Mapping[str, float]]]) -> str:
    """The chance of a pass and of a fail against the true effect, a line per number of images."""
    width, height, left, top, between = 400, 220, 52, 66, 64
    panels = []
    for place, verdict in enumerate(("pass", "fail")):
        start = left + place * (width + between)
        panels.append(_panel(found, verdict, (start, top), (width, height)))
    size = (left + 2 * width + between + 24, top + height + 56)
    keys = []
    for at, n in enumerate(NUMBERS):
        x = left + 108 * at
        keys.append(
            f'<line x1="{x}" x2="{x + 28}" y1="38" y2="38" stroke="{_COLOURS[n]}" stroke-width="2" '
            f'stroke-dasharray="{_DASHES[n]}"/><text x="{x + 34}" y="42" fill="{pictures.SOFT}">{n} images</text>'
        )
    words = "Chance of a verdict by true effect, 8 methods beside 4 controls"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" height="{size[1]}" '
        f'role="img" aria-label="{words}" font-family="system-ui, sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="{pictures.PAPER}"/>'
        f'<text x="{left}" y="20" fill="{pictures.INK}" font-size="13">{words}</text>'
        f"{''.join(keys)}{''.join(panels)}</svg>\n"
    )


def _panel(
    found: Mapping[int, Mapping[float, Mapping[str, float]]], verdict: str, at: tuple[int, int], size: tuple[int, int]
) -> str:
    (left, top), (width, height) = at, size
    first, last = (-0.2, EFFECTS[-1]) if verdict == "pass" else (EFFECTS[0], 0.6)

    def x(effect: float) -> float:
        return left + width * (effect - first) / (last - first)

    def y(chance: float) -> float:
        return top + height * (1 - chance)

    parts = [
        f'<line x1="{left}" x2="{left + width}" y1="{y(chance):.1f}" y2="{y(chance):.1f}" stroke="#dcd8cd" '
        f'stroke-dasharray="{"4 3" if chance == 0.8 else "none"}"/><text x="{left - 8}" y="{y(chance) + 4:.1f}" '
        f'text-anchor="end" fill="{pictures.SOFT}">{chance:.0%}</text>'
        for chance in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    for effect in (one for one in EFFECTS if first <= one <= last and round(one * 10) % 5 == 0):
        words = f"{effect:+.1f}".replace("-", "−") if effect else "0"
        here, floor = f"{x(effect):.1f}", top + height
        parts.append(
            f'<line x1="{here}" x2="{here}" y1="{floor}" y2="{floor + 4}" stroke="{pictures.SOFT}"/>'
            f'<text x="{here}" y="{floor + 18}" text-anchor="middle" fill="{pictures.SOFT}">{words}</text>'
        )
    for n in NUMBERS:
        points = " ".join(
            f"{x(effect):.1f},{y(one.get(verdict, 0.0)):.1f}" for effect, one in found[n].items() if first <= effect <= last
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{_COLOURS[n]}" stroke-width="2" '
            f'stroke-dasharray="{_DASHES[n]}"/>'
        )
    title = {"pass": "● pass", "fail": "■ fail"}[verdict]
    axis = "true difference to the best control, in standard deviations of scores"
    return (
        f'<text x="{left}" y="{top - 8}" fill="{pictures.INK}">{title}</text>{"".join(parts)}'
        f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle" fill="{pictures.SOFT}">{axis}</text>'
    )


def put(text: str, name: str, lines: Sequence[str]) -> str:
    """The text with these lines between the markers of this name."""
    begin, end = f"<!-- measured: {name} -->", "<!-- end -->"
    if begin not in text:
        raise SystemExit(f"{PAGE} lacks the marker {begin}")
    return re.sub(
        re.escape(begin) + ".*?" + re.escape(end), lambda _: "\n".join([begin, *lines, end]), text, count=1, flags=re.DOTALL
    )


def limits(of: Callable[[int], list[list[str]]]) -> Callable[[int], list[str]]:
    """A table of `verdict_limits` as lines, with the number of draws beneath."""

    def lines(draws: int) -> list[str]:
        first, *others = of(draws)
        return [row(*first), rule(len(first)), *(row(*one) for one in others), "", f"{draws:,} simulated tests per number."]

    return lines


def drawn_power(draws: int) -> list[str]:
    """The table of power; its picture is written beside it."""
    found = power(draws)
    PICTURE.write_text(picture(found), encoding="utf-8")
    return power_lines(found)


TABLES: Mapping[str, Callable[[int], list[str]]] = {
    "false passes": false_passes,
    "classes": limits(verdict_limits.class_lines),
    "groups": limits(verdict_limits.group_lines),
    "rare failures": limits(verdict_limits.rare_lines),
    "alike": limits(verdict_limits.alike_lines),
    "power": drawn_power,
    "advice": advice,
    "truth": lambda _: truth_lines(),
    "grades": lambda _: grade_lines(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="simulated tests per number of the first table")
    parser.add_argument("--write", action="store_true", help="write docs/verdicts.md and its picture")
    parser.add_argument("--only", default=",".join(TABLES), help="comma-separated names of tables; all of them by default")
    given = parser.parse_args()
    print(f"every control but the first is {BEHIND:g} standard deviations worse", flush=True)
    for name in (one.strip() for one in given.only.split(",")):
        if name not in TABLES:
            raise SystemExit(f"--only {name}: there is no such table; there are {', '.join(TABLES)}")
        lines = TABLES[name](given.draws)
        print(f"\n{name}\n" + "\n".join(lines), flush=True)
        if given.write:  # each table as soon as it is there, for all of them take long
            PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), name, lines), encoding="utf-8")
    if given.write:
        print(f"\nwritten: {PAGE}")


if __name__ == "__main__":
    main()
