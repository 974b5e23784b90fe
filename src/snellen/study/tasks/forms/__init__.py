"""The forms in which tasks are answered: a number, a decision with a number, a choice of pictures, a rating."""

from snellen.study.tasks.forms.decision import Decision
from snellen.study.tasks.forms.form import Assurance, Form
from snellen.study.tasks.forms.percent import Percent
from snellen.study.tasks.forms.rating import Rating
from snellen.study.tasks.forms.selection import Selection

__all__ = ["Assurance", "Decision", "Form", "Percent", "Rating", "Selection"]
