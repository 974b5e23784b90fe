"""The commands of `snellen textbox`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options, terminal

app = typer.Typer(
    help="Scenes and classifiers whose rule is known, so that a map can be right or wrong.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def textbox() -> None:
    """Scenes and classifiers whose rule is known, so that a map can be right or wrong."""


@app.command()
def show(
    setting: Annotated[str | None, typer.Option(help="one of the seven, such as complex-cr2; all of them otherwise")] = None,
    rule: Annotated[str | None, typer.Option(help="a rule in one line, or a YAML file with scenes of your own")] = None,
    model: Annotated[str | None, typer.Option(help="the folder of a trained model, whose predictions are shown too")] = None,
    background: Annotated[str | None, typer.Option(help="black, noise, photos, colour, texture, or a folder")] = None,
    images: Annotated[int, typer.Option(help="how many scenes of each bucket to draw, where one setting is shown")] = 4,
    out: Annotated[Path | None, typer.Option(help="the PNG to write; textbox-SETTING.png otherwise")] = None,
) -> None:
    """Draw scenes of every bucket with what a map should focus on and avoid framed, and print that as a table."""
    from snellen.textbox.report.contact_sheets import setting_sheet, settings_sheet, write_sheet
    from snellen.textbox.report.scene_tables import (
        bucket_table,
        default_path,
        draw_all_settings,
        draw_rule_scenes,
        find_spec_and_network,
        settings_table,
    )

    if setting is None and rule is None and model is None:
        every = draw_all_settings(background=background)
        terminal.show(settings_table({scenes.spec.name: scenes.spec.rule for scenes in every}))
        print(f"picture: {write_sheet(settings_sheet(every), out or default_path(None))}")
        return
    scenes = draw_rule_scenes(*find_spec_and_network(setting, rule, model, background), images=images)
    terminal.show(bucket_table(scenes))
    print(f"picture: {write_sheet(setting_sheet(scenes), out or default_path(scenes))}")


@app.command()
def train(
    setting: Annotated[
        str | None, typer.Argument(metavar="SETTING", help="one of the seven, such as simple-fr or complex-cr2")
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="a rule of your own, \"if box2: box1 else: text == 'B'\", or a scene file (YAML)")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="all seven settings")] = False,
    name: Annotated[str | None, typer.Option(help="what the network is called")] = None,
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
    """Train a network on a rule, verify that it follows the rule, and store it in a folder."""
    from snellen.textbox.networks.training_jobs import specs_from_options, train_all
    from snellen.textbox.networks.training_progress import TrainingProgress, bucket_table, summary_lines

    specs = specs_from_options(
        setting,
        rule=rule,
        every=every,
        name=name,
        architecture=architecture,
        background=background,
        robust=robust,
        side=side,
    )
    holds = []
    trained = train_all(specs, out, TrainingProgress(), images=images, seed=seed, device=device, threads=threads)
    for network, verification in trained:
        terminal.show(bucket_table(network, verification))
        print("\n".join(summary_lines(network, verification)))
        holds.append(verification.holds)
    if not all(holds):
        raise typer.Exit(1)


@app.command("run")
def run_textbox(
    methods: Annotated[
        str | None, typer.Option(help="all, or comma-separated names; settings in brackets: rise(masks=500)")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="one more beside those that --out holds already: a name, mine.py:f or package.module:MyMethod"),
    ] = None,
    settings: Annotated[
        str | None, typer.Option(help="comma-separated names of shipped networks; all seven otherwise")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="a folder that `snellen textbox train` wrote")] = None,
    images: Annotated[int | None, typer.Option(help="scenes per bucket; 20 as in the paper otherwise")] = None,
    reading: Annotated[str, typer.Option(help="how the terminal scores maps: paper or published-code")] = "paper",
    variation: Annotated[
        str | None, typer.Option(help="architecture, robust, noise or photos: other networks against the shipped ones")
    ] = None,
    study: Annotated[str | None, typer.Option(hidden=True, help="the former name of --variation")] = None,
    only: Annotated[
        str | None, typer.Option(help="some kinds of networks of a variation that has several, such as resnet")
    ] = None,
    models: Annotated[
        Path | None, typer.Option(help="where the networks of a variation are; runs/textbox/models otherwise")
    ] = None,
    out: Annotated[Path, typer.Option(help="the folder of the results; an existing one is continued")] = Path(
        "runs/textbox"
    ),
    workers: options.Workers = None,
    threads: options.Threads = None,
    trust: options.Trust = False,
) -> None:
    """Explain networks whose rule is known by methods, and measure how much of each map lies where the network looks."""
    from snellen.plugins.notation import split_names
    from snellen.runs.progress import Live
    from snellen.textbox.exam.run_exam import run_exam
    from snellen.textbox.exam.scoring import find_reading
    from snellen.textbox.report.exam_table import ExamTable
    from snellen.textbox.report.page import write_report

    chosen_reading = find_reading(reading)
    chosen_methods = split_names(methods) if methods else None
    if variation or study or only is not None or models is not None:
        from snellen.textbox.exam.variations import run_variation, variation_from_options
        from snellen.textbox.report.variation_claims import decide_variation_claims
        from snellen.textbox.report.variation_report import ClaimList, write_variation

        chosen = variation_from_options(variation or study, model=model, method=method, reading=chosen_reading)
        result = run_variation(
            chosen,
            settings=split_names(settings or ""),
            only=split_names(only or ""),
            methods=chosen_methods,
            models=models,
            out=out / "studies",
            cached=out,
            per_bucket=images,
            workers=workers,
            threads=threads,
            observer=Live(),
        )
        terminal.show(ClaimList(decide_variation_claims(result), chosen.title))
        print(f"tables, figure and page: {write_variation(result, out / 'studies' / chosen.name).parent}")
        return
    results = run_exam(
        [*split_names(settings or ""), *(model or [])],
        methods=chosen_methods,
        add=[name for text in method or [] for name in split_names(text)],
        out=out,
        per_bucket=images,
        workers=workers,
        threads=threads,
        observer=Live(),
        trust=trust,
    )
    terminal.show(ExamTable(results, chosen_reading))
    print(f"report: {write_report(results, out / 'report.html')}")


@app.command()
def audit(
    settings: Annotated[
        str | None,
        typer.Option(help="comma-separated names of settings, or folders that training wrote; all otherwise"),
    ] = None,
    images: Annotated[int, typer.Option(help="of every setting, at least; spread evenly over its buckets")] = 20,
    methods: Annotated[
        str | None, typer.Option(help="comma-separated names; controls and the oracle are always added")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="comma-separated names; your own code: mine.py:m; all otherwise")
    ] = None,
    out: Annotated[Path, typer.Option(help="the folder for runs, page and table")] = Path("runs/textbox-audit"),
    markdown: Annotated[Path | None, typer.Option(help="a Markdown file to write the tables to as well")] = None,
    truth: Annotated[Path | None, typer.Option(help="a CSV file for the table of metrics that cards read")] = None,
) -> None:
    """Audit metrics: which of them prefer maps that are right, in simple and in complex settings."""
    from snellen.plugins.notation import split_names
    from snellen.runs.progress import Live
    from snellen.textbox.audit.audit import audit as audit_metrics
    from snellen.textbox.report.audit_page import write_audit
    from snellen.textbox.report.audit_text import AuditTable, write_markdown

    names = (split_names(text) if text else None for text in (settings, methods, metrics))
    result = audit_metrics(*names, images=images, out=out, observer=Live())
    terminal.show(AuditTable(result))
    print(f"audit: {write_audit(result, out / 'audit.html')}, {result.write_csv(out / 'audit.csv')}")
    if markdown is not None:
        print(f"written: {write_markdown(result, markdown)}")
    if truth is not None:
        print(f"written: {result.write_truth(truth)}")
