"""Writes the results of a study into a run: scores per image, verdicts per method, and which metrics agree with people."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from snellen.errors import SnellenError
from snellen.report.readable import Readable
from snellen.runs import Run
from snellen.runs.people import COLUMNS, StudyResult, write_people
from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.joining.agreement import Agreement, agree
from snellen.study.joining.standing import outcomes
from snellen.study.protocol import NONE


def join(study: Study, collected: StudyData, folder: str | Path) -> tuple[StudyResult, Agreement]:
    """Writes the results of a study into a run.

    Args:
        study: The study.
        collected: The answers of its participants.
        folder: Of a run of the same model and images.
    """
    run = Run(folder)
    agreement = agreement_with(study, collected, run)
    result = study_result(study, collected, run, agreement)
    write_people(run.folder, result)
    return result, agreement


def agreement_with(study: Study, collected: StudyData, run: Readable) -> Agreement:
    """Whether the metrics of a run of the same model and images predict people."""
    refuse_other_run(study, run)
    return agree(run, collected, study)


def refuse_other_run(study: Study, run: Readable) -> None:
    """Refuses a run whose maps cannot be those that participants saw."""
    subject, record = study.subject, run.record
    for what, expected, actual in (
        ("another model", subject["fingerprint"], record.classifier.fingerprint),
        ("other images", subject["digest"], record.samples.digest),
    ):
        if expected != actual:
            raise SnellenError(
                f"'{run.folder}' is a run of {what} than '{study.folder}' was made from ({str(actual)[:8]}, not "
                f"{str(expected)[:8]}); give {study.protocol.run or subject['run']} or a run of the same model and images"
            )
    methods = [method.label for method in record.spec.methods]
    if not set(study.protocol.arms) & set(methods):
        arms = ", ".join(arm for arm in study.protocol.arms if arm != NONE)
        raise SnellenError(
            f"'{run.folder}' has none of the methods that '{study.folder}' showed ({arms}); give a run that has them"
        )


def study_result(study: Study, collected: StudyData, run: Readable, agreement: Agreement | None = None) -> StudyResult:
    """The results of the study as they are stored in the run, with the links of `agreement` if there is one."""
    controls = [method.label for method in run.record.spec.methods if method.control]
    counted = collected.counted
    if counted.answers.empty:
        raise SnellenError(
            f"no participant of '{study.folder}' counts yet (finished, not excluded); join it when somebody does"
        )
    days = sorted(str(at)[:10] for at in counted.answers["at"])
    return StudyResult(
        title=study.protocol.title,
        digest=study.digest,
        source="simulated" if collected.simulated else "human",
        begun=days[0],
        ended=days[-1],
        design=study.protocol.design,
        people=len(counted.participants),
        left_out=len(collected.participants) - len(counted.participants),
        outcomes=outcomes(study, collected, controls),
        links=agreement.links if agreement else (),
        images=image_scores(study, collected),
    )


def image_scores(study: Study, collected: StudyData) -> pd.DataFrame:
    """The mean score of every image and method, task by task. An item of three images gives its score to each of them."""
    items = pd.DataFrame([(item.id, sample) for item in study.items for sample in item.samples], columns=["item", "sample"])
    rows = collected.counted.answers.merge(items, on="item")
    several = len(study.protocol.presentation) > 1
    suffixes = [f"/{name}" if several and name != "photograph" else "" for name in rows["presentation"]]
    metrics = [f"people:{task}{suffix}" for task, suffix in zip(rows["task"], suffixes, strict=True)]
    rows = rows.assign(method=rows["arm"], metric=metrics)
    groups = rows.groupby(["metric", "method", "presentation", "sample"], sort=True)["score"]
    means = groups.agg(value="mean", n="count", error="sem").reset_index()
    return means.assign(source="simulated" if collected.simulated else "human")[list(COLUMNS)]
