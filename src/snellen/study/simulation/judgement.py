"""What a study measures of people, and how simulated people answer: ease in, answer out.

*Ease* is skill minus the difficulty of the item, in standard deviations of skill. The formulas belong to the form of a task
(`snellen.study.tasks.forms`). Of every formula there are two readings: `given` turns random numbers into answers, and
`moments` tells mean and mean square of the score without any. They are tested against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from snellen.study.folder import Study
from snellen.study.scales import Scale
from snellen.study.tasks import AnswerBatch, AnswerNoise, Form, Rating, find_task
from snellen.study.tasks.forms.form import Moments
from snellen.study.tasks.task import truth_array
from snellen.types import Rng


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerModel:
    """A task or a questionnaire: its items, what is true of them, and how hard they are."""

    name: str
    form: Form
    higher_is_better: bool
    ability: bool
    needs_map: bool
    scale: Scale | None
    """The questionnaire; None for a task."""
    items: tuple[str, ...]
    counts: Bool[np.ndarray, " items"]
    """Which items are no practice."""
    truth: Float[np.ndarray, "items *further"]
    difficulty: Float[np.ndarray, " items"]
    """Standard normal, and the item's own: the same in every rehearsal."""

    def noise(self, people: int, draw: np.random.Generator) -> AnswerNoise:
        """Luck for so many people."""
        return self.form.noise(people, len(self.items), draw)

    def given(self, ease: Float[np.ndarray, "people items"], noise: AnswerNoise, bets: float) -> AnswerBatch:
        """Answers of people who look; of questionnaires, the scores."""
        return self.form.simulate(ease, self.truth, noise, bets)

    def careless(self, noise: AnswerNoise) -> AnswerBatch:
        """Answers of people who do not look: anything that can be answered; the same all the way down a questionnaire."""
        if self.scale is None:
            return self.form.careless(noise)
        answers = self.form.careless(replace(noise, main=np.repeat(noise.main[:, :1], len(self.items), axis=1)))
        turned = [place - 1 for place in self.scale.reverse]
        answers.value[:, turned] = self.scale.points + 1 - answers.value[:, turned]
        return answers

    def score(self, given: AnswerBatch) -> Float[np.ndarray, "people items"]:
        """The scores of answers, as `Task.score_answer` and `Scale.score` give them one by one."""
        return _rating(self.truth, given) if self.scale else find_task(self.name).score(self.truth, given)

    def moments(self, ease: Float[np.ndarray, "ways items"], bets: float) -> Moments:
        """Mean and mean square of the score at this ease."""
        if self.scale:
            return self.form.moments(_rating, ease, self.truth, bets)
        return find_task(self.name).moments(ease, self.truth, bets)


def _rating(truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
    return answers.value.astype(np.float64)


def answer_models(study: Study) -> dict[str, AnswerModel]:
    """Everything that the study measures, tasks first, by name."""
    found = {}
    for plan in study.protocol.tasks:
        task = find_task(plan.task)
        items = [item for item in study.items if item.task == plan.task]
        found[plan.task] = AnswerModel(
            name=plan.task,
            form=task.form,
            higher_is_better=task.traits.higher_is_better,
            ability=task.traits.ability,
            needs_map=task.traits.needs_map,
            scale=None,
            items=tuple(item.id for item in items),
            counts=np.array([not item.practice for item in items]),
            truth=truth_array([item.truth for item in items]),
            difficulty=_difficulty(study, [item.id for item in items]),
        )
    for name, scale in study.scales.items():
        statements = tuple(f"{name}/{place}" for place in range(1, scale.items + 1))
        found[name] = AnswerModel(
            name=name,
            form=Rating(1, scale.points),
            higher_is_better=True,
            ability=False,
            needs_map=scale.needs_map,
            scale=scale,
            items=statements,
            counts=np.ones(scale.items, dtype=bool),
            truth=np.zeros(scale.items),
            difficulty=_difficulty(study, statements),
        )
    return found


def _difficulty(study: Study, names: list[str] | tuple[str, ...]) -> Float[np.ndarray, " items"]:
    rng = Rng(study.protocol.seed, ())
    return np.array([rng.shared(f"difficulty/{name}").standard_normal() for name in names], dtype=np.float64)
