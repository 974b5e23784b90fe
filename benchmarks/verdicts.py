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
from snellen.cards.schema import Evidence, EvidenceSource
from snellen.charts.line_figure import LinePanel, LineStyle, line_figure
from snellen.charts.verdict_marks import MARKS
from snellen.verdicts import Trust
from snellen.verdicts.paired_difference import further_images
from snellen.verdicts.rule import against_controls, decide_verdict
from snellen.verdicts.trust import TRUTH, textbox_results

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "verdicts.md", DOCS / "verdicts-power.svg"

NUMBERS = (30, 60, 100, 200, 400)
MANY = (800, 1600)
FAMILIES = ((1, 1), (1, 4), (8, 4))
EFFECTS = tuple(round(0.1 * step, 1) for step in range(-10, 16))


def simulate_verdicts(
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
        verdicts = [decide_verdict(differences)[0] for differences in against_controls(own, rivals, names, seed=at)]
        counted.update(verdicts)
        anyone += "pass" in verdicts
    total = counted.total()
    return {verdict: count / total for verdict, count in counted.items()}, anyone / draws


# What is measured --------------------------------------------------------------------------------------------------------


def false_passes(draws: int) -> list[str]:
    """Tests in which some method passes although none is better than the first control."""
    heads = [f"n = {n}, {m} × {c}" for n in (30, 100) for m, c in FAMILIES]
    lines = [row("scores", *heads), rule(1 + len(heads))]
    worst = 0.0
    for name in POPULATIONS:
        rates = [simulate_verdicts(name, n, family, draws)[1] for n in (30, 100) for family in FAMILIES]
        worst = max(worst, *rates)
        lines.append(row(name, *(f"{rate:.1%}".replace("%", " %") for rate in rates)))
        print(lines[-1], flush=True)
    error = 1.96 * math.sqrt(worst * (1 - worst) / draws)
    words = f"{draws:,} simulated tests per number; the worst is {100 * worst:.1f} ± {100 * error:.1f} %."
    return [*lines, "", words]


def power(draws: int) -> dict[int, dict[float, dict[str, float]]]:
    """By number of images and effect, the share of each verdict for 8 methods beside 4 controls with normal scores."""
    rates: dict[int, dict[float, dict[str, float]]] = {}
    for n in NUMBERS:
        rates[n] = {effect: simulate_verdicts("normal", n, (8, 4), max(20, draws // 20), effect)[0] for effect in EFFECTS}
        print(
            f"power at {n} images: { ({effect: round(shares.get('pass', 0), 2) for effect, shares in rates[n].items()}) }",
            flush=True,
        )
    for n in MANY:
        rates[n] = {0.0: simulate_verdicts("normal", n, (8, 4), max(20, draws // 30))[0]}
    return rates


def power_lines(rates: Mapping[int, Mapping[float, Mapping[str, float]]]) -> list[str]:
    effects_shown = (0.3, 0.5, 0.8, 1.0, 1.5)
    heads = [f"pass at {effect:+g} SD" for effect in effects_shown]
    lines = [row("images", *heads, "80 % pass from", "fail at −0.5 SD", "fail at −1 SD", "fail at 0")]
    lines.append(rule(5 + len(effects_shown)))
    for n, effects in rates.items():
        if n in MANY:
            lines.append(row(f"{n:,}", *("" for _ in effects_shown), "", "", "", share(effects[0.0], "fail")))
            continue
        steps = [effect for effect in effects if effect >= 0]
        chances = [effects[effect].get("pass", 0.0) for effect in steps]
        enough = next((at for at, chance in enumerate(chances) if chance >= 0.8), None)
        if not enough:
            reached = "over 1.5 SD"
        else:
            gap = (0.8 - chances[enough - 1]) / (chances[enough] - chances[enough - 1])
            reached = f"{steps[enough - 1] + gap * (steps[enough] - steps[enough - 1]):.2f} SD"
        cells = [share(effects[effect], "pass") for effect in effects_shown]
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
            differences = against_controls(values[:, :1] + effect, values[:, 1:], names, seed=seed)
            return differences[0]

        first = rng.normal(size=(n, 1 + rivals))
        exact = np.linalg.qr(first - first.mean(axis=0))[0] * math.sqrt(n - 1)
        more = further_images(against(exact, 0)) or 0
        repeats = max(20, draws // 5)
        settled = sum(
            decide_verdict(against(rng.normal(size=(n + more, 1 + rivals)), at))[0] != "inconclusive"
            for at in range(repeats)
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
        names = sorted(name for name, result in textbox_results().items() if result.verdict == verdict)
        lines.append(row(f"{verdict}: {words[verdict]}", f"{factor:g}", ", ".join(f"`{name}`" for name in names)))
    others = sum(result.verdict not in TRUTH for result in textbox_results().values())
    return [*lines, row("sees, faint, or not on trial", "1", f"{others} metrics that were on trial, and all others")]


def grade_lines() -> list[str]:
    """The formula of grades at work."""
    source = EvidenceSource(kind="run", name="example", model="", data="")

    def of(*tests: tuple[str, float]) -> str:
        evidence = [
            Evidence(
                attribute="minimality",
                test="",
                metric="",
                verdict=verdict,
                reason="",
                source=source,
                trust=Trust("", (), 0.0, weight, 1.0, None),
            )
            for verdict, weight in tests
        ]
        belief = grade("minimality", evidence)
        return f"{belief.share:.2f}, {belief.word}"

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


LINES = {
    30: LineStyle(name="30 images", colour="inconclusive", dash="2 3"),
    60: LineStyle(name="60 images", colour="perceptibility", dash="5 3"),
    100: LineStyle(name="100 images", colour="sensitivity", dash="8 3 2 3"),
    200: LineStyle(name="200 images", colour="methodology", dash="10 4"),
    400: LineStyle(name="400 images", colour="ink"),
}


def picture(rates: Mapping[int, Mapping[float, Mapping[str, float]]]) -> str:
    """The chance of a pass and of a fail against the true effect, a line per number of images."""
    panels = [_panel(rates, "pass", (-0.2, EFFECTS[-1])), _panel(rates, "fail", (EFFECTS[0], 0.6))]
    title = "Chance of a verdict by true effect, 8 methods beside 4 controls"
    return line_figure([panels], title=title, width=400, height=220).standalone()


def _panel(rates: Mapping[int, Mapping[float, Mapping[str, float]]], verdict: str, ends: tuple[float, float]) -> LinePanel:
    lines = {
        LINES[n]: [
            (effect, chances.get(verdict, 0.0)) for effect, chances in rates[n].items() if ends[0] <= effect <= ends[1]
        ]
        for n in NUMBERS
    }
    marked = [effect for effect in EFFECTS if ends[0] <= effect <= ends[1] and round(effect * 10) % 5 == 0]
    return LinePanel(
        title=f"{MARKS[verdict]} {verdict}",
        lines=lines,
        across={effect: f"{effect:+.1f}".replace("-", "−") if effect else "0" for effect in marked},
        up={chance: f"{chance:.0%}" for chance in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)},
        ends=ends,
        dashed=0.8,
        caption="true difference to the best control, in standard deviations of scores",
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
        return [
            row(*first),
            rule(len(first)),
            *(row(*cells) for cells in others),
            "",
            f"{draws:,} simulated tests per number.",
        ]

    return lines


def drawn_power(draws: int) -> list[str]:
    """The table of power; its picture is written beside it."""
    rates = power(draws)
    PICTURE.write_text(picture(rates), encoding="utf-8")
    return power_lines(rates)


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
    options = parser.parse_args()
    print(f"every control but the first is {BEHIND:g} standard deviations worse", flush=True)
    for name in (part.strip() for part in options.only.split(",")):
        if name not in TABLES:
            raise SystemExit(f"--only {name}: there is no such table; there are {', '.join(TABLES)}")
        lines = TABLES[name](options.draws)
        print(f"\n{name}\n" + "\n".join(lines), flush=True)
        if options.write:  # each table as soon as it is there, for all of them take long
            PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), name, lines), encoding="utf-8")
    if options.write:
        print(f"\nwritten: {PAGE}")


if __name__ == "__main__":
    main()
