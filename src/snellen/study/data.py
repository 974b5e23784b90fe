"""The data of a study as three tables: participants, answers to trials, and ratings on questionnaires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

PARTICIPANTS: dict[str, str] = {
    "participant": "random name of the participant",
    "number": "position in the order of arrival, from 0",
    "group": "which group (see the protocol) the participant was put into, from 0",
    "arm": "the method whose maps were shown, `none` without maps; empty within subjects, where all were",
    "presentation": "how maps were shown: overlay, side-by-side, map, or photograph without maps; empty within subjects",
    "language": "language of the pages",
    "simulated": "true for a simulated participant: a program answered",
    "state": "started, finished or withdrawn",
    "started": "when consent was given, UTC",
    "finished": "when the last page was answered, UTC; empty otherwise",
    "pages": "pages answered",
    "last_page": "kind of the first page without an answer, where the participant left; empty when finished",
    "attention_shown": "attention checks answered",
    "attention_missed": "of these, not answered as asked",
    "median_seconds": "median time per trial that counts",
    "excluded": "the pre-stated rule that excludes the participant: unfinished, withdrawn, attention, too fast; else empty",
}
ANSWERS: dict[str, str] = {
    "participant": "random name of the participant",
    "arm": "the method whose map was shown",
    "presentation": "how it was shown",
    "task": "the task",
    "item": "the item that was judged",
    "samples": "names, in the run, of the images of the item, separated by semicolons",
    "practice": "true for an answer that does not count",
    "position": "position of the page in the participant's order, from 0",
    "value": "the answer, a whole number (see the task)",
    "beside": "the answer to the second question, a whole number (see the task)",
    "chosen": "positions (from 0) of the chosen images, separated by semicolons (see the task)",
    "truth": "what would have been right; empty where nothing is, and where images are chosen",
    "score": "the score of the answer (see the task)",
    "higher_is_better": "whether a high score is good",
    "seconds": "time on the page, measured in the browser or, where that is missing, by the server",
    "at": "when the answer arrived, UTC",
}
RATINGS: dict[str, str] = {
    "participant": "random name of the participant",
    "arm": "the method whose maps were rated",
    "presentation": "how they were shown",
    "scale": "the questionnaire",
    "item": "the statement, from 1",
    "answer": "the answer, from 1 (disagree strongly)",
    "score": "the answer, reversed where the statement is reverse-scored",
    "seconds": "time on the questionnaire's page",
    "at": "when the answer arrived, UTC",
}


@dataclass(frozen=True, eq=False)
class StudyData:
    """The three tables, with the columns above; participants are either all simulated or none of them."""

    participants: pd.DataFrame
    answers: pd.DataFrame
    ratings: pd.DataFrame
    simulated: bool = False
    """Whether the participants are simulated."""

    @staticmethod
    def of(
        participants: list[dict[str, Any]], answers: list[dict[str, Any]], ratings: list[dict[str, Any]], *, simulated: bool
    ) -> StudyData:
        """From rows of the three tables, a dictionary by column each."""
        return StudyData(
            participants=pd.DataFrame(participants, columns=list(PARTICIPANTS)),
            answers=pd.DataFrame(answers, columns=list(ANSWERS)),
            ratings=pd.DataFrame(ratings, columns=list(RATINGS)),
            simulated=simulated,
        )

    @property
    def counted(self) -> StudyData:
        """Without excluded participants and practice answers."""
        people = self.participants[self.participants["excluded"] == ""]
        names = set(people["participant"])
        answers = self.answers[self.answers["participant"].isin(names) & ~self.answers["practice"].astype(bool)]
        return StudyData(
            participants=people,
            answers=answers,
            ratings=self.ratings[self.ratings["participant"].isin(names)],
            simulated=self.simulated,
        )
