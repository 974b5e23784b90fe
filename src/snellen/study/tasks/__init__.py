"""Study tasks: one file per task. Each module is imported, so a new file is enough.

A task in another package is found through the entry point `snellen.plugins`, as every plug-in is.
"""

import importlib
import pkgutil

from snellen.study.tasks.answer import Answer, AnswerBatch, AnswerError, AnswerNoise, SentAnswer, Truth
from snellen.study.tasks.forms import Assurance, Decision, Form, Percent, Rating, Selection
from snellen.study.tasks.pool import BANDS, Candidate, ChosenItem, Pool, accuracy
from snellen.study.tasks.task import TASKS, Task, TaskName, TaskTraits, find_task, task

__all__ = [
    "BANDS",
    "TASKS",
    "Answer",
    "AnswerBatch",
    "AnswerError",
    "AnswerNoise",
    "Assurance",
    "Candidate",
    "ChosenItem",
    "Decision",
    "Form",
    "Percent",
    "Pool",
    "Rating",
    "Selection",
    "SentAnswer",
    "Task",
    "TaskName",
    "TaskTraits",
    "Truth",
    "accuracy",
    "find_task",
    "task",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
