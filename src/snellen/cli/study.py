"""The commands of `snellen study`: no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options

app = typer.Typer(
    help="Studies with people: whether a map helps anyone, and whether the metrics know.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="the study's folder")]

Database = Annotated[
    str | None,
    typer.Option(metavar="URL", help="where answers are kept, such as postgresql+psycopg://...; else in the study's folder"),
]

Effects = Annotated[
    str,
    typer.Option(help="assumed differences (Cohen's d): none, 0.5 for the first arm, or grad-cam=0.5,trust:grad-cam=0.2"),
]


@app.callback()
def study() -> None:
    """Studies with people: whether a map helps anyone, and whether the metrics know."""
    from importlib.util import find_spec

    from snellen.errors import SnellenError

    if not all(map(find_spec, ("alembic", "itsdangerous", "pingouin", "sqlalchemy", "starlette", "statsmodels", "uvicorn"))):
        raise SnellenError("`snellen study` needs the extra: pip install 'snellen[study]'")


@app.command()
def new(
    folder: Folder,
    protocol: Annotated[
        Path | None, typer.Argument(metavar="[PROTOCOL]", help="a YAML file of settings; options given here win over it")
    ] = None,
    run: Annotated[Path | None, typer.Option(metavar="RUN", help="the run folder whose maps people will see")] = None,
    arms: Annotated[str | None, typer.Option(help="methods of the run with commas between; none for no map")] = None,
    design: Annotated[str | None, typer.Option(help="between or within subjects")] = None,
    presentation: Annotated[str | None, typer.Option(help="overlay, side-by-side, map, with commas between")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="names with items and practice: error-detection:12:2,class-accuracy:12")
    ] = None,
    scales: Annotated[str | None, typer.Option(help="questionnaires with commas between")] = None,
    languages: Annotated[str | None, typer.Option(help="en, de, with commas between")] = None,
    people: Annotated[int | None, typer.Option(help="how many are to finish; nobody new is admitted then")] = None,
    seed: Annotated[int | None, typer.Option(help="changes the choice of images and all orders")] = None,
    title: Annotated[str | None, typer.Option(help="what participants read at the head of the pages")] = None,
    trust: options.Trust = False,
) -> None:
    """Make a study from a run: choose images, draw the maps of all arms in the same way, write texts and questionnaires."""
    from rich.console import Console

    from snellen.errors import SnellenError
    from snellen.plugins.notation import split_names
    from snellen.runs.progress import Live
    from snellen.runs.settings import Settings
    from snellen.study.folder import new_password
    from snellen.study.making.make import make, read_tasks
    from snellen.study.making.preview import Made

    values = Settings.read(protocol) if protocol else {}
    several = {"arms": arms, "presentation": presentation, "scales": scales, "languages": languages}
    values |= {name: split_names(one) for name, one in several.items() if one is not None}
    single = {"design": design, "people": people, "seed": seed, "title": title, "run": run and str(run)}
    values |= {name: one for name, one in single.items() if one is not None}
    values |= {"tasks": read_tasks(tasks)} if tasks is not None else {}
    if not values.get("run"):
        raise SnellenError("a study is made from a run; give --run RUN, a folder that `snellen run` wrote")
    made = make(values["run"], folder, values, observer=Live(), trust=trust)
    Console().print(Made(made))
    print(f"study: {made.folder}; edit study.yaml, texts/ and questionnaires/ there")
    print(f"password for the experimenter's page, told only now: {new_password(made.folder)}")
    print(f"next: snellen study check {folder}, then snellen study serve {folder}")


@app.command()
def check(folder: Folder) -> None:
    """Read a study again, and say what a participant will meet, how long that takes, and who will not count."""
    from rich.console import Console

    from snellen.study.folder import Study
    from snellen.study.making.preview import Preview
    from snellen.study.web.sentences import check_texts

    found = Study.read(folder)
    check_texts(found)
    Console().print(Preview(found))


@app.command()
def serve(
    folder: Folder,
    host: Annotated[
        str, typer.Option(help="the address to listen at; 0.0.0.0 for every one of this computer")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port; 0 takes a free one")] = 8000,
    database: Database = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="a proxy in front tells in X-Forwarded-For who is asking")
    ] = False,
    proxies: Annotated[
        str,
        typer.Option(metavar="ADDRESSES", help="addresses or networks of proxies that are believed, comma-separated"),
    ] = "127.0.0.1,::1",
    per_address: Annotated[
        int | None,
        typer.Option(min=1, help="connections that one address may have at once; else half of what this computer allows"),
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="participants reach the study by https, so cookies are for https alone")
    ] = False,
) -> None:
    """Serve the study as web pages: for participants, and, with the password, for the experimenter."""
    from snellen.study.answers.store import Store
    from snellen.study.folder import Study
    from snellen.study.web.application import serve as serving
    from snellen.study.web.guard import Proxies

    found, trusted = Study.read(folder), Proxies.of(proxies) if behind_proxy else None
    store = Store.open(found, database)
    try:
        serving(found, store, host=host, port=port, secure=secure, proxies=trusted, per_address=per_address)
    finally:
        store.close()


@app.command()
def status(folder: Folder, database: Database = None) -> None:
    """Say how a study is going: how many of each group are where, and at which pages people left."""
    from contextlib import closing

    from rich.console import Console

    from snellen.study.answers.status import Status
    from snellen.study.answers.store import Store
    from snellen.study.folder import Study

    found = Study.read(folder)
    with closing(Store.open(found, database)) as store:
        Console().print(Status.of(found, store))


@app.command()
def pause(folder: Folder, database: Database = None) -> None:
    """Admit nobody new until `resume`; who is inside may finish."""
    from snellen.study.answers.status import switch

    print(switch(folder, database, "paused"))


@app.command()
def resume(folder: Folder, database: Database = None) -> None:
    """Admit newcomers again."""
    from snellen.study.answers.status import switch

    print(switch(folder, database, "open"))


@app.command()
def close(folder: Folder, database: Database = None) -> None:
    """End the study: nobody new is admitted, and newcomers read that it is over; who is inside may finish."""
    from snellen.study.answers.status import switch

    print(switch(folder, database, "closed"))


@app.command()
def erase(
    folder: Folder,
    participant: Annotated[str, typer.Argument(metavar="PARTICIPANT", help="the random name, as in the tables")],
    database: Database = None,
) -> None:
    """Erase everything that one participant left behind; this cannot be undone."""
    from contextlib import closing

    from snellen.errors import SnellenError
    from snellen.study.answers.store import Store
    from snellen.study.folder import Study

    with closing(Store.open(Study.read(folder), database)) as store:
        if not store.erase(participant):
            raise SnellenError(f"nobody in '{folder}' is called '{participant}'; `snellen study export` writes the names")
        if store.lingering:
            raise SnellenError(
                f"'{participant}' is erased from the tables, but the database's files still hold a copy, because another "
                "program is reading them or the disk is full; end a backup or an open database shell, and run "
                f"`snellen study status {folder}`, which removes it"
            )
    print(
        f"erased: {participant}; exports that were written before still hold the answers, so delete those and export again"
    )


@app.command()
def export(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where to write; otherwise export/ in the study's folder")
    ] = None,
    database: Database = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="what simulated people answered, in files whose names say so")
    ] = False,
) -> None:
    """Write what was collected as CSV and Parquet, with a codebook of every column."""
    from contextlib import closing

    from snellen.study.answers.export import write_export
    from snellen.study.answers.store import Store
    from snellen.study.folder import Study

    found = Study.read(folder)
    with closing(Store.open(found, database)) as store:
        for path in write_export(found, store, out or folder / "export", simulated=simulated):
            print(path)


@app.command()
def password(folder: Folder) -> None:
    """Make a new password for the experimenter's page and tell it, once; logins with the old one end."""
    from snellen.study.folder import Study, new_password

    print(f"password: {new_password(Study.read(folder).folder)}")


@app.command()
def simulate(
    folder: Folder,
    participants: Annotated[int, typer.Option(min=1, help="how many take part")] = 166,
    effect: Effects = "none",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="where the study is served; else it is served for this")
    ] = None,
    database: Database = None,
    concurrency: Annotated[int, typer.Option(min=1, help="how many take part at the same time")] = 20,
    think: Annotated[float, typer.Option(min=0, help="seconds that they wait before an answer, on average")] = 0.0,
    leaving: Annotated[float, typer.Option(min=0, max=1, help="share of people who leave before the end")] = 0.08,
    reload: Annotated[float, typer.Option(min=0, max=1, help="share of pages that are loaded again")] = 0.0,
    double: Annotated[float, typer.Option(min=0, max=1, help="share of answers that are sent twice at once")] = 0.0,
    back: Annotated[float, typer.Option(min=0, max=1, help="share of pages that are answered again, otherwise")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="another seed draws other people")] = 0,
) -> None:
    """Let simulated people take part in the real web application; what they answer is marked, and never exported as real."""
    import asyncio

    from rich.console import Console
    from rich.progress import Progress

    from snellen.study.folder import Study
    from snellen.study.rehearsal.effect import Crowd, Effect
    from snellen.study.rehearsal.participant import Faults
    from snellen.study.rehearsal.rehearsal import rehearsed
    from snellen.study.rehearsal.rehearsal import simulate as simulating
    from snellen.study.rehearsal.terminal import Told

    found = Study.read(folder)
    assumed = Effect.of(effect, found.protocol, Crowd(leaving=leaving))
    with Progress(transient=True) as progress, rehearsed(found, url, database) as books:
        bar = progress.add_task("simulating", total=participants)
        rehearsal = asyncio.run(
            simulating(
                found,
                books.link,
                participants,
                assumed,
                seed=seed,
                concurrency=concurrency,
                think=think,
                faults=Faults(reload, double, back),
                tell=lambda _: progress.advance(bar),
            )
        )
        tally = books.compare(rehearsal)
    Console().print(Told(rehearsal, tally))
    print(f"next: snellen study analyse {folder} --simulated")
    if tally is not None and not tally.clean:
        raise typer.Exit(1)


@app.command()
def power(
    folder: Folder,
    effect: Effects = "0.5",
    task: Annotated[list[str] | None, typer.Option(help="only this task or questionnaire; may be given again")] = None,
    goal: Annotated[float, typer.Option("--power", help="how likely a difference is to be found")] = 0.8,
    alpha: Annotated[
        float | None, typer.Option(help="how likely one is to be found where none is; else the study's")
    ] = None,
    simulations: Annotated[int, typer.Option(help="simulated studies of every size that is tried")] = 1000,
    per_arm: Annotated[list[int] | None, typer.Option(help="tell the power of this size too; may be given again")] = None,
    seed: Annotated[int, typer.Option(min=0, help="another seed draws other people")] = 0,
) -> None:
    """Tell how many people the study needs, by simulating whole studies and testing them as `analyse` does."""
    from rich.console import Console

    from snellen.study.folder import Study
    from snellen.study.rehearsal.effect import Effect
    from snellen.study.rehearsal.power import power as planning

    found, console = Study.read(folder), Console()
    with console.status("simulating") as status:
        needed = planning(
            found,
            Effect.of(effect, found.protocol),
            tasks=task or (),
            goal=goal,
            alpha=alpha,
            studies=simulations,
            sizes=per_arm or (),
            seed=seed,
            tell=lambda words: status.update(f"simulating, {words}"),
        )
    console.print(needed)


@app.command()
def analyse(
    folder: Folder,
    database: Database = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="what simulated people answered: a rehearsal, marked as such everywhere")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="where the report goes; else STUDY/analysis or STUDY/simulated-analysis"),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="a run of the same model and images: do its metrics predict people?")
    ] = None,
) -> None:
    """Read a study: who took part, what they could do, whether arms differ or are equal, and how sure one may be."""
    from rich.console import Console

    from snellen.runs import Run
    from snellen.study.analysis import analyse as reading
    from snellen.study.analysis.page import write_analysis
    from snellen.study.analysis.terminal import ShownAnalysis
    from snellen.study.answers.store import Store
    from snellen.study.folder import Study
    from snellen.study.gathering import gather
    from snellen.study.joining.join import agreement_with

    found, console = Study.read(folder), Console()
    store = Store.open(found, database)
    try:
        collected = gather(found, store.visits(simulated=simulated), simulated=simulated)
        erased = store.erased(simulated=simulated)
    finally:
        store.close()
    with console.status("reading the study") as status:
        agreement = agreement_with(found, collected, Run(run)) if run else None
        done = reading(
            found,
            collected,
            agreement,
            erased=erased,
            telling=lambda what, place, steps: status.update(f"reading the study, {place + 1} of {steps}: {what.lower()}"),
        )
    console.print(ShownAnalysis(done))
    place = out or folder / ("simulated-analysis" if simulated else "analysis")
    print(f"report: {write_analysis(done, place)[0]}")


@app.command()
def join(
    folder: Folder,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="a run of the same model and images; else the one it was made from")
    ] = None,
    database: Database = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="what simulated people answered: marked everywhere, and never counted")
    ] = False,
) -> None:
    """Put what people could do into the run: on its cards, in recommendations, and beside every metric."""
    from rich.console import Console

    from snellen.study.answers.store import Store
    from snellen.study.folder import Study
    from snellen.study.gathering import gather
    from snellen.study.joining.join import join as joined
    from snellen.study.joining.terminal import ShownJoin

    found = Study.read(folder)
    store = Store.open(found, database)
    try:
        collected = gather(found, store.visits(simulated=simulated), simulated=simulated)
    finally:
        store.close()
    place = run or Path(found.protocol.run)
    Console().print(ShownJoin(*joined(found, collected, place)))
    print(f"joined: {place}/people; `snellen cards --run {place}` shows it")
