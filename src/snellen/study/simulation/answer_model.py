"""How simulated participants answer a task or a questionnaire, by the ease of its items.

*Ease* is skill minus the difficulty of the item, in standard deviations of skill. The formulas belong to the form of a task
(`snellen.study.tasks.forms`). Each is there twice: `simulate` turns random numbers into answers, and `moments` computes mean
and mean square of the score exactly. They are tested against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from snellen.study.folder import Study
from snellen.study.scales import Questionnaire
from snellen.study.tasks import AnswerBatch, AnswerNoise, Form, Rating, find_task
from snellen.study.tasks.forms.form import Moments
from snellen.study.tasks.task import truth_array
from snellen.types import Rng


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerModel:
    """A task or a questionnaire with its items."""

    name: str
    form: Form
    higher_is_better: bool
    ability: bool
    """Whether it measures what participants can do, and not what they like."""
    needs_map: bool
    """Whether only participants with maps are asked."""
    scale: Questionnaire | None
    """The questionnaire; None for a task."""
    items: tuple[str, ...]
    """Their names."""
    counts: Bool[np.ndarray, " items"]
    """Which items are not for practice."""
    truth: Float[np.ndarray, "items *further"]
    """The right answers; zero for questionnaires."""
    difficulty: Float[np.ndarray, " items"]
    """Standard normal, drawn once per item: the same in every simulation of the study."""

    def noise(self, participants: int, draw: np.random.Generator) -> AnswerNoise:
        """The random numbers behind the answers of so many participants."""
        return self.form.noise(participants, len(self.items), draw)

    def simulate(self, ease: Float[np.ndarray, "people items"], noise: AnswerNoise, bets: float) -> AnswerBatch:
        """Answers of attentive participants; of questionnaires, the scores.

        Args:
            ease: Skill minus difficulty.
            noise: The random numbers behind the answers.
            bets: How far stakes and certainties follow the probability of being right, from 0 (not) to 1.
        """
        return self.form.simulate(ease, self.truth, noise, bets)

    def careless(self, noise: AnswerNoise) -> AnswerBatch:
        """Random answers, of participants who do not look; in a questionnaire the same answer to every statement."""
        if self.scale is None:
            return self.form.careless(noise)
        answers = self.form.careless(replace(noise, main=np.repeat(noise.main[:, :1], len(self.items), axis=1)))
        reversed_items = [item - 1 for item in self.scale.reverse]
        answers.value[:, reversed_items] = self.scale.points + 1 - answers.value[:, reversed_items]
        return answers

    def score(self, answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        """The scores of answers, equal to those of `Task.score_answer` and `Questionnaire.score`."""
        return _rating(self.truth, answers) if self.scale else find_task(self.name).score(self.truth, answers)

    def moments(self, ease: Float[np.ndarray, "ways items"], bets: float) -> Moments:
        """Mean and mean square of the score at this ease."""
        if self.scale:
            return self.form.moments(_rating, ease, self.truth, bets)
        return find_task(self.name).moments(ease, self.truth, bets)


def _rating(truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
    return answers.value.astype(np.float64)


def answer_models(study: Study) -> dict[str, AnswerModel]:
    """By name, a model of every task and then of every questionnaire of a study."""
    models = {}
    for plan in study.protocol.tasks:
        task = find_task(plan.task)
        items = [item for item in study.items if item.task == plan.task]
        models[plan.task] = AnswerModel(
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
        statements = tuple(f"{name}/{item}" for item in range(1, scale.items + 1))
        models[name] = AnswerModel(
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
    return models


def _difficulty(study: Study, names: list[str] | tuple[str, ...]) -> Float[np.ndarray, " items"]:
    rng = Rng(study.protocol.seed, ())
    return np.array([rng.shared(f"difficulty/{name}").standard_normal() for name in names], dtype=np.float64)
