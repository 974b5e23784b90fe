"""Options that several commands of the command line share, each with one type and one sentence."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str | None, typer.Option(help="zoo name, timm:NAME, torchvision:NAME, package.module:function, or a .pt / .pt2 file")
]
Images = Annotated[str | None, typer.Option(help="a folder of images, zoo:photographs or zoo:digits")]
Methods = Annotated[str | None, typer.Option(help="names with commas between, settings in brackets: rise(masks=500)")]
Recipe = Annotated[
    str | None, typer.Option(help="package.module:function that trains a model, or zoo:digits, for tests that retrain")
]
Training = Annotated[str | None, typer.Option(help="a folder of labelled images for the recipe, or zoo:digits-training")]
Checkpoints = Annotated[
    str | None, typer.Option(help="a folder of state dicts saved while the model was trained, or zoo:digits")
]
Out = Annotated[str | None, typer.Option(help="the run folder; an existing one is continued")]
Target = Annotated[str | None, typer.Option(help="predicted, label, least-likely, or a class")]
Seed = Annotated[int | None, typer.Option(help="changes every random draw")]
Labels = Annotated[str | None, typer.Option(help="CSV with the columns file,label and perhaps group, such as a patient")]
Masks = Annotated[str | None, typer.Option(help="folder with a mask per image, for metrics that need the truth")]
Boxes = Annotated[str | None, typer.Option(help="CSV with the columns file,x0,y0,x1,y1")]
TrainingLabels = Annotated[str | None, typer.Option(help="CSV with the columns file,label for --training")]
Weights = Annotated[str | None, typer.Option(help="a local weight file for timm: or torchvision: models")]
Mean = Annotated[str | None, typer.Option(help="normalisation: mean per channel in [0, 1], e.g. 0.485,0.456,0.406")]
Std = Annotated[str | None, typer.Option(help="normalisation: standard deviation per channel")]
Size = Annotated[int | None, typer.Option(help="side of the square that the model takes")]
Classes = Annotated[str | None, typer.Option(help="text file with one class name per line")]
Outputs = Annotated[str | None, typer.Option(help="what the model returns: logits or probabilities")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps")]
Batch = Annotated[int | None, typer.Option(help="images per pass; found from a memory budget otherwise")]
Shard = Annotated[int | None, typer.Option(help="samples per unit of work")]
Workers = Annotated[int | None, typer.Option(help="processes to use")]
Trust = Annotated[
    bool, typer.Option("--trust", help="execute what a run folder names that was not made here: its model, recipe, variants")
]
Threads = Annotated[int | None, typer.Option(help="torch threads per process")]
