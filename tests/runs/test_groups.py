"""Groups of images, such as patients, go from the table of labels through the record of a run to its verdicts."""

from __future__ import annotations

import numpy as np
import torch
from tests.runs.subject import Small, write_images

from snellen import Classifier, Geometry
from snellen.images import from_arrays, from_folder
from snellen.runs import Run, evaluate
from snellen.runs.record import RunRecord
from snellen.runs.store import Store
from snellen.verdicts import run_certainty, run_sampling

IMAGES = 36


def run_of(tmp_path, groups):
    folder = write_images(tmp_path / "images", IMAGES, side=12)
    rows = [f"{at:03d}.png,{at % 5},patient {at % groups}" for at in range(IMAGES)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label,group", *rows]), encoding="utf-8")
    samples = from_folder(folder, geometry=Geometry((12, 12)), labels=tmp_path / "labels.csv")
    classifier = Classifier(Small(), mean=(0.5,) * 3, std=(0.5,) * 3, name="small")
    return evaluate(classifier, samples, methods=["gradient", "random"], metrics=["sparseness"], out=tmp_path / "run")


def test_groups_of_a_table_decide_what_is_drawn(tmp_path):
    run = run_of(tmp_path, 12)
    assert run.samples()["group"].tolist() == [f"patient {at % 12}" for at in range(IMAGES)]
    assert run_sampling(run).unit == "group"
    (judged,) = run.verdicts().judgements
    assert judged.against[0].clusters == 12
    assert "Images come in 12 groups" in judged.rule
    # A run of an earlier version knows labels only; its images show every class of the model.
    record = run.record.as_json()
    del record["samples"]["table"]
    rows = [row.as_json() for row in run.record.samples.rows]
    record["samples"]["rows"] = [{name: row[name] for name in row if name != "group"} for row in rows]
    Store(tmp_path / "run").put_record(RunRecord.model_validate(record))
    older = Run(tmp_path / "run")
    assert run_sampling(older).words == ""
    assert older.verdicts().judgements[0].against[0].clusters is None


def test_six_patients_are_too_few_and_every_page_says_so(tmp_path):
    run = run_of(tmp_path, 6)
    words = "6 groups are too few for a verdict, which needs at least 10"
    assert run_certainty(run).words == words
    assert run.verdicts().judgements[0].reason == "too few groups for a verdict"
    assert words in run.report().read_text(encoding="utf-8")


def test_groups_of_arrays_and_lists():
    images = torch.rand(4, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    assert [sample.group for sample in from_arrays(images, groups=["a", None, "b", "a"])] == ["a", None, "b", "a"]
    numbered = from_arrays(images, groups=np.array([3, 3, 7, 7])).take([1, 2])
    assert [sample.group for sample in numbered] == ["3", "7"]
