"""The commands of `snellen study`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snellen.cli import options, terminal

if TYPE_CHECKING:
    from snellen.study.data import StudyData
    from snellen.study.folder import Study

app = typer.Typer(
    help="Studies with people: whether a map helps them, and whether the metrics predict that.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="the study's folder")]

Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="database for the answers, such as postgresql+psycopg://...; in the study's folder otherwise"
    ),
]

Simulated = Annotated[
    bool, typer.Option("--simulated", help="the answers of simulated participants, marked as such in everything written")
]

Effects = Annotated[
    str,
    typer.Option(help="assumed differences (Cohen's d): none, 0.5 for the first arm, or grad-cam=0.5,trust:grad-cam=0.2"),
]


@app.callback()
def study_commands() -> None:
    """Studies with people: whether a map helps them, and whether the metrics predict that."""
    from importlib.util import find_spec

    from snellen.errors import SnellenError

    if not all(map(find_spec, ("alembic", "itsdangerous", "pingouin", "sqlalchemy", "starlette", "statsmodels", "uvicorn"))):
        raise SnellenError("`snellen study` needs the extra: pip install 'snellen[study]'")


@app.command()
def new(
    folder: Folder,
    protocol: Annotated[
        Path | None, typer.Argument(metavar="PROTOCOL", help="a YAML file of settings; options given here win over it")
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="the run folder whose maps participants will see")] = None,
    arms: Annotated[str | None, typer.Option(help="comma-separated methods of the run; none for no map")] = None,
    design: Annotated[str | None, typer.Option(help="between or within subjects")] = None,
    presentation: Annotated[str | None, typer.Option(help="overlay, side-by-side, map, comma-separated")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="names with items and practice: error-detection:12:2,class-accuracy:12")
    ] = None,
    scales: Annotated[str | None, typer.Option(help="comma-separated questionnaires")] = None,
    languages: Annotated[str | None, typer.Option(help="en, de, comma-separated")] = None,
    people: Annotated[int | None, typer.Option(help="how many are to finish; after that nobody is admitted")] = None,
    seed: Annotated[int | None, typer.Option(help="changes the choice of images and all orders")] = None,
    title: Annotated[str | None, typer.Option(help="what participants read at the head of the pages")] = None,
    trust: options.Trust = False,
) -> None:
    """Make a study from a run: choose images, draw the maps of all arms in the same way, write texts and questionnaires."""
    from snellen.errors import SnellenError
    from snellen.plugins.notation import split_names
    from snellen.runs.progress import Live
    from snellen.runs.settings import Settings
    from snellen.study.folder import new_password
    from snellen.study.making.make import make, read_tasks
    from snellen.study.making.preview import NewStudyTable

    values = Settings.read(protocol) if protocol else {}
    several = {"arms": arms, "presentation": presentation, "scales": scales, "languages": languages}
    values |= {name: split_names(text) for name, text in several.items() if text is not None}
    single = {"design": design, "people": people, "seed": seed, "title": title, "run": run}
    values |= {name: value for name, value in single.items() if value is not None}
    values |= {"tasks": read_tasks(tasks)} if tasks is not None else {}
    if not values.get("run"):
        raise SnellenError("a study is made from a run; give --run RUN, a folder that `snellen run` wrote")
    study = make(values["run"], folder, values, observer=Live(), trust=trust)
    terminal.show(NewStudyTable(study))
    print(f"study: {study.folder}; edit study.yaml, texts/ and questionnaires/ there")
    print(f"password for the experimenter's page, printed only now: {new_password(study.folder)}")
    print(f"next: snellen study check {folder}, then snellen study serve {folder}")


@app.command()
def check(folder: Folder) -> None:
    """Check a study; print what a participant will see, how long that takes, and who will be excluded."""
    from snellen.study.folder import Study
    from snellen.study.making.preview import StudyPreview
    from snellen.study.web.sentences import check_texts

    study = Study.read(folder)
    check_texts(study)
    terminal.show(StudyPreview(study))


@app.command()
def serve(
    folder: Folder,
    host: Annotated[
        str, typer.Option(help="the address to listen at; 0.0.0.0 for all addresses of this computer")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port; 0 takes a free one")] = 8000,
    database: Database = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="a proxy in front sends the visitor's address in X-Forwarded-For")
    ] = False,
    proxies: Annotated[
        str,
        typer.Option(metavar="ADDRESSES", help="comma-separated addresses or networks of trusted proxies"),
    ] = "127.0.0.1,::1",
    per_address: Annotated[
        int | None,
        typer.Option(min=1, help="open connections per address; half of what this computer allows otherwise"),
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="participants reach the study by https, so cookies are for https alone")
    ] = False,
) -> None:
    """Serve the study as web pages: for participants, and, with the password, for the experimenter."""
    from snellen.study.answers.store import AnswerStore
    from snellen.study.folder import Study
    from snellen.study.web.application import serve as serve_pages
    from snellen.study.web.security import Proxies

    study, trusted = Study.read(folder), Proxies.of(proxies) if behind_proxy else None
    with closing(AnswerStore.open(study, database)) as store:
        serve_pages(study, store, host=host, port=port, secure=secure, proxies=trusted, per_address=per_address)


@app.command()
def status(folder: Folder, database: Database = None) -> None:
    """Print how many participants of each arm are at which stage, and at which pages they left."""
    from snellen.study.answers.status import StudyStatus
    from snellen.study.answers.store import AnswerStore
    from snellen.study.folder import Study

    study = Study.read(folder)
    with closing(AnswerStore.open(study, database)) as store:
        terminal.show(StudyStatus.of(study, store))


@app.command()
def pause(folder: Folder, database: Database = None) -> None:
    """Admit no new participants until `resume`; those who have begun may finish."""
    from snellen.study.answers.status import switch

    print(switch(folder, database, "paused"))


@app.command()
def resume(folder: Folder, database: Database = None) -> None:
    """Admit new participants again."""
    from snellen.study.answers.status import switch

    print(switch(folder, database, "open"))


@app.command()
def close(folder: Folder, database: Database = None) -> None:
    """End the study: new visitors read that it is over; participants who have begun may finish."""
    from snellen.study.answers.status import switch

    print(switch(folder, database, "closed"))


@app.command()
def erase(
    folder: Folder,
    participant: Annotated[str, typer.Argument(metavar="PARTICIPANT", help="the random name, as in the tables")],
    database: Database = None,
) -> None:
    """Erase everything that one participant left behind; this cannot be undone."""
    from snellen.errors import SnellenError
    from snellen.study.answers.store import AnswerStore
    from snellen.study.folder import Study

    with closing(AnswerStore.open(Study.read(folder), database)) as store:
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
    simulated: Simulated = False,
) -> None:
    """Write the collected answers as CSV and Parquet, with a codebook of every column."""
    from snellen.study.answers.export import write_export
    from snellen.study.answers.store import AnswerStore
    from snellen.study.folder import Study

    study = Study.read(folder)
    with closing(AnswerStore.open(study, database)) as store:
        for path in write_export(study, store, out or folder / "export", simulated=simulated):
            print(path)


@app.command()
def password(folder: Folder) -> None:
    """Make a new password for the experimenter's page and print it, once; logins with the old one end."""
    from snellen.study.folder import Study, new_password

    print(f"password: {new_password(Study.read(folder).folder)}")


@app.command()
def simulate(
    folder: Folder,
    participants: Annotated[int, typer.Option(min=1, help="how many take part")] = 166,
    effect: Effects = "none",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="where the study is served; otherwise a server is started")
    ] = None,
    database: Database = None,
    concurrency: Annotated[int, typer.Option(min=1, help="how many take part at the same time")] = 20,
    think: Annotated[float, typer.Option(min=0, help="mean seconds before an answer")] = 0.0,
    leaving: Annotated[float, typer.Option(min=0, max=1, help="share of participants who leave before the end")] = 0.08,
    reload: Annotated[float, typer.Option(min=0, max=1, help="share of pages that are loaded again")] = 0.0,
    double: Annotated[float, typer.Option(min=0, max=1, help="share of answers that are sent twice at once")] = 0.0,
    back: Annotated[
        float, typer.Option(min=0, max=1, help="share of pages that are answered again, with another answer")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="another seed draws other participants")] = 0,
) -> None:
    """Let simulated participants use the real web application; their answers are marked and never exported as real."""
    import asyncio

    from rich.progress import Progress

    from snellen.study.folder import Study
    from snellen.study.simulation.effect import Effect, ParticipantMix
    from snellen.study.simulation.participant import Faults
    from snellen.study.simulation.simulate import served_study
    from snellen.study.simulation.simulate import simulate as simulate_participants
    from snellen.study.simulation.summary_table import SimulationSummary

    study = Study.read(folder)
    assumed = Effect.of(effect, study.protocol, ParticipantMix(leaving=leaving))
    with Progress(transient=True) as progress, served_study(study, url, database) as served:
        bar = progress.add_task("simulating", total=participants)
        simulation = asyncio.run(
            simulate_participants(
                study,
                served.link,
                participants,
                assumed,
                seed=seed,
                concurrency=concurrency,
                think=think,
                faults=Faults(reload=reload, double=double, back=back),
                on_progress=lambda _: progress.advance(bar),
            )
        )
        check = served.compare(simulation)
    terminal.show(SimulationSummary(simulation, check))
    print(f"next: snellen study analyse {folder} --simulated")
    if check is not None and not check.clean:
        raise typer.Exit(1)


@app.command()
def power(
    folder: Folder,
    effect: Effects = "0.5",
    task: Annotated[list[str] | None, typer.Option(help="only this task or questionnaire; may be given again")] = None,
    goal: Annotated[float, typer.Option("--power", help="the probability that a difference is detected")] = 0.8,
    alpha: Annotated[float | None, typer.Option(help="the probability of a false detection; the study's otherwise")] = None,
    simulations: Annotated[int, typer.Option(help="simulated studies per number of participants")] = 1000,
    per_arm: Annotated[list[int] | None, typer.Option(help="print the power of this size too; may be given again")] = None,
    seed: Annotated[int, typer.Option(min=0, help="another seed draws other participants")] = 0,
) -> None:
    """Print how many participants the study needs, by simulating whole studies and testing them as `analyse` does."""
    from snellen.study.folder import Study
    from snellen.study.simulation.effect import Effect
    from snellen.study.simulation.power import power as analyse_power
    from snellen.study.simulation.power_table import PowerTable

    study = Study.read(folder)
    with terminal.status("simulating") as status:
        analysis = analyse_power(
            study,
            Effect.of(effect, study.protocol),
            outcomes=task or (),
            goal=goal,
            alpha=alpha,
            studies=simulations,
            sizes=per_arm or (),
            seed=seed,
            on_progress=lambda step: status.update(f"simulating, {step}"),
        )
    terminal.show(PowerTable(analysis))


@app.command()
def analyse(
    folder: Folder,
    database: Database = None,
    simulated: Simulated = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="where the report goes; else STUDY/analysis or STUDY/simulated-analysis"),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="RUN", help="a run of the same model and images: do its metrics predict people?")
    ] = None,
) -> None:
    """Analyse a study: who took part, how well they did, and whether arms differ or are equivalent, with intervals."""
    from snellen.runs import Run
    from snellen.study.analysis import analyse as analyse_study
    from snellen.study.analysis.page import write_analysis
    from snellen.study.analysis.summary_table import AnalysisSummary
    from snellen.study.folder import Study
    from snellen.study.joining.join import agreement_with

    study = Study.read(folder)
    collected, erased = _collect(study, database, simulated=simulated)
    with terminal.status("analysing the study") as status:
        agreement = agreement_with(study, collected, Run(run)) if run else None
        analysis = analyse_study(
            study,
            collected,
            agreement,
            erased=erased,
            on_progress=lambda step, number, steps: status.update(f"analysing, {number + 1} of {steps}: {step.lower()}"),
        )
    terminal.show(AnalysisSummary(analysis))
    target = out or folder / ("simulated-analysis" if simulated else "analysis")
    print(f"report: {write_analysis(analysis, target)[0]}")


@app.command()
def join(
    folder: Folder,
    run: Annotated[
        str | None, typer.Option(metavar="RUN", help="a run of the same model and images; else the one it was made from")
    ] = None,
    database: Database = None,
    simulated: Simulated = False,
) -> None:
    """Write the study's results into the run: for its cards, its recommendations, and beside every metric."""
    from snellen.study.folder import Study
    from snellen.study.joining.join import join as join_study
    from snellen.study.joining.summary_table import JoinSummary

    study = Study.read(folder)
    collected, _ = _collect(study, database, simulated=simulated)
    run_folder = run or study.protocol.run
    terminal.show(JoinSummary(*join_study(study, collected, run_folder)))
    print(f"joined: {run_folder}/people; `snellen cards --run {run_folder}` shows it")


def _collect(study: Study, database: str | None, *, simulated: bool) -> tuple[StudyData, int]:
    """What participants answered, and how many of them were erased."""
    from snellen.study.answers.store import AnswerStore
    from snellen.study.participation import collect_data

    with closing(AnswerStore.open(study, database)) as store:
        collected = collect_data(study, store.participations(simulated=simulated), simulated=simulated)
        return collected, store.erased(simulated=simulated)
