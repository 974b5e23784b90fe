"""The commands of `snellen textbox`: no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from snellen.cli import options

app = typer.Typer(
    help="Scenes on which a classifier's reasoning is known, so that a map can be right or wrong.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def textbox() -> None:
    """Scenes on which a classifier's reasoning is known, so that a map can be right or wrong."""


@app.command()
def show(
    setting: Annotated[str | None, typer.Option(help="one of the seven, such as complex-cr2; all of them otherwise")] = None,
    rule: Annotated[str | None, typer.Option(help="a rule in one line, or a YAML file with scenes of your own")] = None,
    model: Annotated[str | None, typer.Option(help="the folder of a trained model, whose answers are shown too")] = None,
    background: Annotated[str | None, typer.Option(help="black, noise, photos, colour, texture, or a folder")] = None,
    images: Annotated[int, typer.Option(help="how many scenes of each bucket to draw, where one setting is shown")] = 4,
    out: Annotated[Path | None, typer.Option(help="the PNG to write; textbox-SETTING.png otherwise")] = None,
) -> None:
    """Draw scenes of every bucket with what a map should focus on and avoid framed, and print that as a table."""
    from snellen.textbox.report.contact_sheets import setting_sheet, settings_sheet, write_sheet
    from snellen.textbox.report.scene_tables import default_path, settings_table, show_settings, subject, table
    from snellen.textbox.report.scene_tables import show as shown

    if setting is None and rule is None and model is None:
        every = show_settings(background=background)
        Console().print(settings_table({one.spec.name: one.spec.rule for one in every}))
        print(f"picture: {write_sheet(settings_sheet(every), out or default_path(None))}")
        return
    found = shown(*subject(setting, rule, model, background), images=images)
    Console().print(table(found))
    print(f"picture: {write_sheet(setting_sheet(found), out or default_path(found))}")


@app.command()
def train(
    setting: Annotated[str | None, typer.Argument(help="simple-fr, complex-cr2, …")] = None,
    rule: Annotated[
        str | None, typer.Option(help="a rule of your own, \"if box2: box1 else: text == 'B'\", or a scene file (YAML)")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="all seven settings")] = False,
    name: Annotated[str | None, typer.Option(help="what the reasoner is called")] = None,
    architecture: Annotated[
        str | None, typer.Option(help="small-cnn, deep-cnn, alexnet, vgg16, resnet or vit-tiny; the published one otherwise")
    ] = None,
    background: Annotated[
        str | None, typer.Option(help="black, noise, photos, colour, texture, or a folder of photographs")
    ] = None,
    robust: Annotated[bool, typer.Option("--robust", help="train against PGD attacks, from the plain network")] = False,
    side: Annotated[int | None, typer.Option(help="height and width of the scenes; 64 otherwise")] = None,
    images: Annotated[int | None, typer.Option(metavar="MOST", help="at most so many images per attempt")] = None,
    seed: options.Seed = None,
    device: options.Device = None,
    threads: options.Threads = None,
    out: Annotated[Path | None, typer.Option(help="the folder; runs/textbox/models/NAME otherwise")] = None,
) -> None:
    """Teach a network a rule from scenes made on the way, prove that it follows the rule, and keep it in a folder."""
    from snellen.textbox.networks.training_jobs import specs_from_options, train_all
    from snellen.textbox.networks.training_progress import TrainingProgress, outcome, words

    asked = specs_from_options(
        setting,
        rule=rule,
        every=every,
        called=name,
        architecture=architecture,
        background=background,
        robust=robust,
        side=side,
    )
    holds = []
    for network, proof in train_all(
        asked, out, TrainingProgress(), images=images, seed=seed, device=device, threads=threads
    ):
        Console().print(outcome(network, proof))
        print("\n".join(words(network, proof)))
        holds.append(proof.holds)
    if not all(holds):
        raise typer.Exit(1)


@app.command("run")
def run_textbox(
    methods: Annotated[
        str | None, typer.Option(help="all, or names with commas between; settings in brackets: rise(masks=500)")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="one more beside those that --out holds already: a name, or mypackage.module:MyMethod"),
    ] = None,
    settings: Annotated[
        str | None, typer.Option(help="shipped reasoners by name, with commas between; all seven otherwise")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="a folder that `snellen textbox train` wrote")] = None,
    images: Annotated[int | None, typer.Option(help="scenes per bucket; 20 as in the paper otherwise")] = None,
    reading: Annotated[str, typer.Option(help="how the terminal scores maps: paper or published-code")] = "paper",
    study: Annotated[
        str | None, typer.Option(help="architecture, robust, noise or photos: other networks against the shipped ones")
    ] = None,
    only: Annotated[str | None, typer.Option(help="of a study with several kinds of networks, these, as in resnet")] = None,
    models: Annotated[Path | None, typer.Option(help="where a study's networks are; runs/textbox/models otherwise")] = None,
    out: Annotated[Path, typer.Option(help="the folder of the field; an existing one is continued")] = Path("runs/textbox"),
    workers: options.Workers = None,
    threads: options.Threads = None,
    trust: options.Trust = False,
) -> None:
    """Explain scenes of known reasoning by methods, and say how much of each map lies where the model really looks."""
    from snellen.plugins.notation import split_names
    from snellen.runs.progress import Live
    from snellen.textbox.exam.run_exam import run_exam
    from snellen.textbox.exam.scoring import find_reading
    from snellen.textbox.report.exam_table import Shown
    from snellen.textbox.report.page import write_report

    chosen = find_reading(reading)
    if study is not None or only is not None or models is not None:
        from snellen.textbox.exam.variations import run_variation, variation_from_options
        from snellen.textbox.report.variation_report import Verdicts, write_variation

        asked = variation_from_options(study, model=model, method=method, reading=chosen)
        studied = run_variation(
            asked,
            settings=split_names(settings or ""),
            only=split_names(only or ""),
            methods=split_names(methods) if methods else None,
            models=models,
            out=out / "studies",
            cached=out,
            per_bucket=images,
            workers=workers,
            threads=threads,
            observer=Live(),
        )
        Console().print(Verdicts(studied.claims(), asked.title))
        print(f"tables, figure and page: {write_variation(studied, out / 'studies' / asked.name).parent}")
        return
    field = run_exam(
        [*split_names(settings or ""), *(model or [])],
        methods=split_names(methods) if methods else None,
        add=[name for text in method or [] for name in split_names(text)],
        out=out,
        per_bucket=images,
        workers=workers,
        threads=threads,
        observer=Live(),
        trust=trust,
    )
    Console().print(Shown(field, chosen))
    print(f"report: {write_report(field, out / 'report.html')}")


@app.command()
def audit(
    settings: Annotated[
        str | None,
        typer.Option(help="names of settings, or folders that training wrote, with commas between; all otherwise"),
    ] = None,
    images: Annotated[int, typer.Option(help="of every setting, at least; spread evenly over its buckets")] = 20,
    methods: Annotated[str | None, typer.Option(help="names with commas between; controls and oracle always join")] = None,
    metrics: Annotated[str | None, typer.Option(help="names with commas between; all otherwise")] = None,
    out: Annotated[Path, typer.Option(help="the folder for runs, page and table")] = Path("runs/textbox-audit"),
    markdown: Annotated[Path | None, typer.Option(help="a Markdown file to write the tables to as well")] = None,
    truth: Annotated[Path | None, typer.Option(help="a CSV file to write what cards need to know of metrics to")] = None,
) -> None:
    """Put metrics on trial: which of them prefer maps that are right, in simple and in complex settings."""
    from snellen.plugins.notation import split_names
    from snellen.runs.progress import Live
    from snellen.textbox.audit.audit import audit as held
    from snellen.textbox.report.audit_page import write_audit
    from snellen.textbox.report.audit_text import Shown, write_markdown

    named = (split_names(one) if one else None for one in (settings, methods, metrics))
    found = held(*named, images=images, out=out, observer=Live())
    Console().print(Shown(found))
    print(f"audit: {write_audit(found, out / 'audit.html')}, {found.write_csv(out / 'audit.csv')}")
    if markdown is not None:
        print(f"written: {write_markdown(found, markdown)}")
    if truth is not None:
        print(f"written: {found.write_truth(truth)}")
