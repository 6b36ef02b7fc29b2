"""The commands. Each opens what it needs through `wiring`, and says in plain words what to do when it cannot."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from service import audit_commands
from service.ask import Event, Terminal, from_server, is_ours
from service.console import Tell, fault, logging_of_a_server, progress, say, tell
from service.data_dir import make_data_dir
from service.errors import CallerError, GatehouseError, OperatorError
from service.graph.build import mermaid
from service.keys import digest_of, make_key, parse_keys
from service.logs import log_to
from service.model import Kind
from service.printable import on_one_line
from service.sample import RULEBOOK, SAMPLE
from service.serve import LAST_S, end_within, listen_url, make_server, new_note, read_note, server_note
from service.settings import Settings, load_settings
from service.settings_table import settings_table
from service.skill_commands import commands as skill_commands
from service.skill_commands import report_skills
from service.workers import Post, Workers, leave_with_the_parent, listen

if TYPE_CHECKING:
    from service.store import Store
    from service.wiring import Gatehouse

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Gated, cited answers from a curated knowledge base."
)
app.add_typer(skill_commands, name="skills")
app.add_typer(audit_commands.app, name="audit")

Prepare = Callable[["Store", Tell], Coroutine[Any, Any, None]]


def main() -> None:
    """Run a command. A fault that has a name ends with its message and code 1; a bug keeps its traceback."""
    try:
        app()
    except GatehouseError as error:
        fault(error)
        sys.exit(2 if isinstance(error, CallerError) else 1)


def run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command()
def serve() -> None:
    """Serve the API and the page."""
    chosen = load_settings()
    with logging_of_a_server(chosen) as told:
        if chosen.WORKERS == 1:
            run(serve_until_stopped(chosen, site=None, prepare=None, told=told))
            return
        make_data_dir(chosen.DATA_DIR)
        note = new_note(chosen.HOST, chosen.PORT)
        with listen(chosen.HOST, chosen.PORT) as shared, server_note(chosen.DATA_DIR, note):
            Workers(partial(serve_as_worker, note.instance), shared, chosen.WORKERS).run()


def serve_as_worker(instance: str, post: Post) -> None:
    """One of several processes of the server `instance`, whose note the parent writes."""
    try:
        chosen = load_settings()
        with logging_of_a_server(chosen) as told:
            run(serve_worker_until_stopped(chosen, told, instance, post))
    except typer.Exit as left:
        sys.exit(left.exit_code)
    except GatehouseError as error:
        fault(error)
        sys.exit(1)


@app.command()
def demo() -> None:
    """Ingest the sample knowledge base if need be, and serve it with the page: no key, no other server."""
    chosen = load_settings()
    if chosen.LOG_FORMAT == "json":
        with logging_of_a_server(chosen) as told:
            run(serve_until_stopped(chosen, site=RULEBOOK, prepare=ingest_sample, told=told))
        return
    log_to(sys.stderr, logging.WARNING, "text")  # beside its progress a person needs what goes wrong only
    run(serve_until_stopped(chosen, site=RULEBOOK, prepare=ingest_sample))


async def serve_until_stopped(
    settings: Settings, site: Path | None, prepare: Prepare | None, told: Tell = tell
) -> None:
    """Serve until a signal, in this process alone."""
    from service.entrance import check_identity

    check_identity(settings)
    listen(settings.HOST, settings.PORT).close()  # before any slow work
    async with opened(settings, told, site) as gatehouse:
        if prepare is not None:
            await prepare(gatehouse.store, told)
        note = new_note(settings.HOST, settings.PORT)
        with server_note(settings.DATA_DIR, note):
            await serve_gatehouse(gatehouse, settings, told, note.instance)


async def serve_worker_until_stopped(settings: Settings, told: Tell, instance: str, post: Post) -> None:
    """Serve as one of several workers, until a signal or the parent's end."""
    from service.entrance import check_identity

    check_identity(settings)
    async with opened(settings, told) as gatehouse:
        await serve_gatehouse(gatehouse, settings, told, instance, post)


def opened(settings: Settings, told: Tell, site: Path | None = None) -> AbstractAsyncContextManager["Gatehouse"]:
    from service.wiring import open_gatehouse

    return open_gatehouse(settings, lambda line: told(line, "dim"), site)


async def serve_gatehouse(
    gatehouse: "Gatehouse", settings: Settings, told: Tell, instance: str, post: Post | None = None
) -> None:
    """`post` is that of one of several workers."""
    from service.api.app import create_app
    from service.measuring import own_port

    report_skills(gatehouse.api.skills, gatehouse.store.registry, told)
    app = create_app(replace(gatehouse.api, instance=instance))
    on_start = post.serves if post else lambda: None
    server = make_server(app, gatehouse.runs, settings.HOST, settings.PORT, on_start)
    told(f"\nGatehouse listens on {listen_url(settings.HOST, settings.PORT)}  (stop with Ctrl-C)", "bold")
    with own_port(gatehouse.api.metrics, settings, post.number if post else 0):
        leave_with_the_parent(server.stop)
        await server.serve(sockets=[post.shared] if post else None)
        end_within(LAST_S)


async def ingest_sample(store: "Store", told: Tell) -> None:
    for sample in SAMPLE:
        await ingest_into(store, [str(sample.folder)], sample.name, sample.kind, sample.base_url, told=told)


async def ingest_into(
    store: "Store",
    paths: list[str],
    source: str,
    kind: Kind,
    base_url: str,
    *,
    prune: bool = True,
    dry_run: bool = False,
    told: Tell = tell,
) -> None:
    told(f"reading {source} ...", "dim")
    with say.status(Text(f"ingesting {on_one_line(source)} ...")) as status:

        def shown(name: str, done: int, total: int) -> None:
            status.update(Text(on_one_line(f"ingesting {source}: {done}/{total} {name}")))

        report = await store.ingestor.ingest(
            paths, source=source, kind=kind, base_url=base_url, prune=prune, dry_run=dry_run, progress=shown
        )
    told(f"{source}: {report.summary()}", "dim")
    for name, reason in report.failed:
        told(f"  not ingested: {name}: {reason}", "red")
    if report.unpruned:
        told(f"  {report.unpruned}", "yellow")
    if report.failed:
        raise OperatorError(f"{len(report.failed)} document(s) of {source} could not be ingested; the rest is there.")


@app.command()
def ingest(
    paths: Annotated[list[str], typer.Argument(help="Files, folders or http(s) addresses.")],
    source: Annotated[str, typer.Option(help="Name of the source, for filters and skills.")],
    kind: Annotated[Literal["official", "reference"], typer.Option(help="What it is to readers.")],
    base_url: Annotated[str, typer.Option(help="Where the pages are published; addresses are relative to it.")] = "",
    prune: Annotated[bool, typer.Option("--prune", help="Remove documents of this source that were not seen.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
) -> None:
    """Read documents into the knowledge base. Doing it twice changes nothing."""
    log_to(sys.stderr, logging.WARNING, "text")

    async def work() -> None:
        from service.store import open_store

        async with open_store(load_settings(), progress) as store:
            await ingest_into(store, paths, source, kind, base_url, prune=prune, dry_run=dry_run)

    run(work())


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    web: Annotated[bool, typer.Option("--web", help="Also search the open web, for this question only.")] = False,
    skill: Annotated[str | None, typer.Option(help="Name of a skill.")] = None,
    thread: Annotated[str | None, typer.Option(help="Go on with this thread.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the events as JSON lines.")] = False,
) -> None:
    """Ask a question and read the cited answer as it is written."""
    log_to(sys.stderr, logging.ERROR, "text")
    body = {"question": question, "web_search": web}
    body |= {key: value for key, value in (("skill", skill), ("thread_id", thread)) if value is not None}
    run(ask_and_print(load_settings(), body, as_json))


async def ask_and_print(settings: Settings, body: dict[str, Any], as_json: bool) -> None:
    terminal = Terminal(Console())
    async for event in events_of(settings, body):
        if as_json:
            typer.echo(json.dumps(event))
            terminal.failed = terminal.failed or event["type"] == "error"
        else:
            terminal.show(event)
    if terminal.failed:
        raise typer.Exit(1)


async def events_of(settings: Settings, body: dict[str, Any]) -> AsyncIterator[Event]:
    note = read_note(settings.DATA_DIR)
    if note is not None and await is_ours(note.url, note.instance):
        progress(f"asking the server at {note.url}")
        async for event in from_server(note.url, body, settings.CLIENT_KEY.get_secret_value()):
            yield event
        return
    async for event in in_process(settings, body):
        yield event


async def in_process(settings: Settings, body: dict[str, Any]) -> AsyncIterator[Event]:
    from service.api.body import parse
    from service.api.chat import ChatRequest, start_run
    from service.wiring import open_gatehouse

    asked = parse(json.dumps(body), ChatRequest)
    async with open_gatehouse(settings, progress) as gatehouse:
        if await gatehouse.store.knowledge.count() == 0:
            raise OperatorError("The knowledge base is empty. Run `gatehouse ingest` first, or `make demo`.")
        started = start_run(gatehouse.runs, gatehouse.api.skills, asked, client="127.0.0.1")
        await started.admitted()
        async for told in started.events():
            yield gatehouse.api.presenter.frame(told, started.run_id).model_dump(mode="json")


@app.command()
def key(name: Annotated[str, typer.Argument(help="Name of the client: letters, digits, - and _.")]) -> None:
    """Make a key for a client, and print the line that lets it in."""
    made = make_key()
    known = load_settings().API_KEYS.strip(" ,")
    entry = f"{name}:{digest_of(made)}"
    try:
        parse_keys(entry)
    except ValueError:
        raise typer.BadParameter("must be a letter, then letters, digits, - and _", param_hint="NAME") from None
    tell(f"The key of {name}. It is shown this once; only its hash is kept:", "bold")
    typer.echo(made)
    tell("Set this for the server, in the environment or in .env, and start it again:", "bold")
    typer.echo(f"API_KEYS={f'{known},' if known else ''}{entry}")


@app.command()
def graph() -> None:
    """Print the drawing of the compiled graph (Mermaid)."""
    typer.echo(mermaid(), nl=False)


@app.command()
def settings() -> None:
    """Print the table of settings, with their defaults."""
    typer.echo(settings_table(), nl=False)
