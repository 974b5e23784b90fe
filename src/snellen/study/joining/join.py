"""A study joined to the run that it was made from: people's scores per image, verdicts per method, and what metrics knew."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from snellen.errors import SnellenError
from snellen.report.readable import Readable
from snellen.runs import Run
from snellen.runs.people import COLUMNS, People, write_people
from snellen.study.collected import Collected
from snellen.study.folder import Study
from snellen.study.joining.agreement import Agreement, agree
from snellen.study.joining.standing import outcomes
from snellen.study.protocol import NONE


def join(study: Study, collected: Collected, folder: Path) -> tuple[People, Agreement]:
    """Writes what the people of a study could do into the folder of a run of the same model and images."""
    run = Run(folder)
    agreement = agreement_with(study, collected, run)
    people = people_of(study, collected, run, agreement)
    write_people(run.folder, people)
    return people, agreement


def agreement_with(study: Study, collected: Collected, run: Readable) -> Agreement:
    """Whether the metrics of a run of the same model and images predict people."""
    refuse_another(study, run)
    return agree(run, collected, study)


def refuse_another(study: Study, run: Readable) -> None:
    """Refuses a run whose maps cannot be those that people saw."""
    subject, record = study.subject, run.record
    for what, mine, theirs in (
        ("another model", subject["fingerprint"], record.classifier.fingerprint),
        ("other images", subject["digest"], record.samples.digest),
    ):
        if mine != theirs:
            raise SnellenError(
                f"'{run.folder}' is a run of {what} than '{study.folder}' was made from ({str(theirs)[:8]}, not "
                f"{str(mine)[:8]}); give {study.protocol.run or subject['run']} or a run of the same model and images"
            )
    methods = [one.label for one in record.spec.methods]
    if not set(study.protocol.arms) & set(methods):
        raise SnellenError(
            f"'{run.folder}' has none of the methods that '{study.folder}' showed ({', '.join(_shown(study))}); "
            "give a run that has them"
        )


def people_of(study: Study, collected: Collected, run: Readable, agreement: Agreement | None = None) -> People:
    """What the study says of the run's methods."""
    controls = [one.label for one in run.record.spec.methods if one.control]
    counted = collected.counted
    if counted.answers.empty:
        raise SnellenError(f"nobody has answered '{study.folder}' yet who counts; join it when somebody has")
    days = sorted(str(one)[:10] for one in counted.answers["at"])
    return People(
        study.protocol.title,
        study.digest,
        "simulated" if collected.simulated else "human",
        days[0],
        days[-1],
        study.protocol.design,
        len(counted.participants),
        len(collected.participants) - len(counted.participants),
        outcomes(study, collected, controls),
        agreement.links if agreement else (),
        images_of(study, collected),
    )


def images_of(study: Study, collected: Collected) -> pd.DataFrame:
    """People's score of every image and method, task by task: an item of three images gives its score to each of them."""
    shows = pd.DataFrame([(one.id, sample) for one in study.items for sample in one.samples], columns=["item", "sample"])
    rows = collected.counted.answers.merge(shows, on="item")
    several = len(study.protocol.presentation) > 1
    shown = ["/" + one if several and one != "photograph" else "" for one in rows["presentation"]]
    rows = rows.assign(
        method=rows["arm"], metric=[f"people:{task}{how}" for task, how in zip(rows["task"], shown, strict=True)]
    )
    groups = rows.groupby(["metric", "method", "presentation", "sample"], sort=True)["score"]
    found = groups.agg(value="mean", n="count", error="sem").reset_index()
    return found.assign(source="simulated" if collected.simulated else "human")[list(COLUMNS)]


def _shown(study: Study) -> list[str]:
    return [one for one in study.protocol.arms if one != NONE]
