"""The commands about cards: `card`, `cards`, `compare` and `recommend`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import completion, options, terminal
from snellen.errors import SnellenError

app = typer.Typer()

Runs = Annotated[
    list[str] | None,
    typer.Option("--run", metavar="RUN", help="a run folder; several of one model and the same images are joined"),
]


@app.command()
def card(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="a method, rise or rise(masks=500), or a card to read: FILE.md",
            autocompletion=completion.names("methods"),
        ),
    ],
    run: Runs = None,
    out: Annotated[Path, typer.Option(help="the folder to write into")] = Path("cards"),
    trust: options.Trust = False,
) -> None:
    """Write the card of a method as HTML, Markdown and JSON and print it; without --run, what holds for every model."""
    from snellen.cards import files
    from snellen.cards.card_set import cards_of_runs
    from snellen.cards.printed_card import printable

    if Path(name).suffix.lower() in (".md", ".json"):
        terminal.show(printable(files.read_card(Path(name))))
        return
    card_set = cards_of_runs(run, trust=trust) if run else None
    method_card = card_set.find(name) if card_set else files.card_without_run(name)
    terminal.show(printable(method_card, card_set.notes if card_set else ()))
    print(f"card: {', '.join(map(str, files.write_files(method_card, card_set, out)))}")


@app.command()
def compare(
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD", help="two or more methods of the run, by name", autocompletion=completion.names("methods")
        ),
    ],
    run: Runs = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="an HTML page to write it to as well")] = None,
    json: options.Json = False,
    trust: options.Trust = False,
) -> None:
    """Put the cards of some methods side by side, attribute by attribute."""
    from snellen.cards.card_set import cards_of_runs
    from snellen.cards.compare import CardComparison
    from snellen.cards.compare_page import write_comparison
    from snellen.cards.comparison_json import as_json
    from snellen.cards.printed_choice import PrintedComparison

    options.refuse_json_file(methods, json=json)
    comparison = CardComparison.of(cards_of_runs(run or [], trust=trust), methods)
    if json:
        terminal.show_json(as_json(comparison))
    else:
        terminal.show(PrintedComparison(comparison))
    if out is not None:
        print(f"written: {write_comparison(comparison, out)}", file=sys.stderr if json else sys.stdout)


@app.command()
def recommend(
    run: Runs = None,
    need: Annotated[list[str] | None, typer.Option(help="attributes, or people, that must be met, comma-separated")] = None,
    nice: Annotated[list[str] | None, typer.Option(help="attributes that are nice to have")] = None,
    unwanted: Annotated[list[str] | None, typer.Option(help="attributes that you would rather not have")] = None,
    unimportant: Annotated[
        list[str] | None, typer.Option(help="attributes of the profile that do not matter to you")
    ] = None,
    avoid_cost: Annotated[str | None, typer.Option(metavar="TIME", help="most time per image, such as 2s or 500ms")] = None,
    black_box: Annotated[
        bool, typer.Option("--black-box", help="only methods that need nothing but the model's outputs")
    ] = False,
    profile: Annotated[
        str | None, typer.Option(help="start from a ready role, such as radiologist; `list` prints all")
    ] = None,
    json: options.Json = False,
    trust: options.Trust = False,
) -> None:
    """Choose a method by what you need of it, with reasons; says so when none fits."""
    from snellen.cards.card_set import cards_of_runs
    from snellen.cards.printed_choice import PrintedProfiles, PrintedRecommendation
    from snellen.cards.priorities import Priorities, profiles
    from snellen.cards.recommend import recommend as recommend_method
    from snellen.cards.recommendation_json import as_json

    if profile == "list":
        if json:
            raise SnellenError("--profile list prints all roles and has no JSON; leave out --json, or name one of the roles")
        terminal.show(PrintedProfiles(profiles()))
        return
    priorities = Priorities.read(
        need=need or (),
        nice=nice or (),
        unwanted=unwanted or (),
        unimportant=unimportant or (),
        avoid_cost=avoid_cost,
        black_box=black_box,
        profile=profile,
    )
    recommendation = recommend_method(cards_of_runs(run or [], trust=trust), priorities)
    if json:
        terminal.show_json(as_json(recommendation))
    else:
        terminal.show(PrintedRecommendation(recommendation))


@app.command()
def cards(
    run: Runs = None,
    out: Annotated[Path, typer.Option(help="the folder to write into")] = Path("cards"),
    no_measure: Annotated[
        bool, typer.Option("--no-measure", help="do not measure seeds, settings and cost of methods where that is missing")
    ] = False,
    trust: options.Trust = False,
) -> None:
    """Write all cards of a run as one page that opens offline: gallery, comparison, and a choice by your priorities.

    Also writes the card's tables of all methods: A1 (methodology) and A2 (results of every test).
    """
    from snellen.cards import methodology
    from snellen.cards.card_set import cards_of_runs
    from snellen.cards.page import write_cards
    from snellen.cards.tables import write_tables
    from snellen.runs.progress import Live

    observer = Live()
    measure = partial(methodology.measure, observer=observer, trust=trust)
    card_set = cards_of_runs(run or [], methodology.read if no_measure else measure, trust=trust)
    observer.note(f"drawing the cards of {len(card_set.methods)} methods")
    controls = len(card_set.cards) - len(card_set.methods)
    print(f"cards: {write_cards(card_set, out)} ({len(card_set.methods)} methods, {controls} controls)")
    print(f"tables A1 and A2: {', '.join(map(str, write_tables(card_set, out)))}")
