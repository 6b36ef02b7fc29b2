"""`gatehouse audit verify | export | show`: the operator's reading end of the audit log. Nothing here writes to it."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from service.audit.export import Damaged, Wanted, export, find_run
from service.audit.route import route
from service.audit.verify import Anchor, Report, verify
from service.errors import OperatorError
from service.printable import printable
from service.settings import load_settings

app = typer.Typer(no_args_is_help=True, help="Prove the audit log whole, export records, show the route of a run.")

Folder = Annotated[Path | None, typer.Option(help="Folder of the log; DATA_DIR/audit when absent.")]


def folder_of(given: Path | None) -> Path:
    """Raises `OperatorError` where there is no log to read."""
    folder = given or load_settings().audit_folder()
    if not folder.is_dir():
        raise OperatorError(f"There is no audit log in {folder}. Set DATA_DIR, or name the folder with --folder.")
    return folder


@app.command("verify")
def verify_command(
    folder: Folder = None,
    anchor: Annotated[
        list[str] | None, typer.Option(help="SEQ:HASH as an earlier verify printed it, noted outside this machine.")
    ] = None,
) -> None:
    """Read the whole log and name every record that is changed, missing, out of order or cut off."""
    place = folder_of(folder)
    report = verify(place, [anchor_of(text) for text in anchor or []])
    for line in report_lines(report, place):
        typer.echo(printable(line))
    if not report.whole:
        raise typer.Exit(1)


def report_lines(report: Report, folder: Path) -> list[str]:
    lines = [f"NOT WHOLE: {fault}" for fault in report.faults]
    if report.repairs:
        numbers = ", ".join(str(seq) for seq in report.repairs)
        lines.append(f"note: after a crash the log was mended, as record(s) {numbers} say")
    if report.ahead:
        lines.append(f"note: {report.ahead} record(s) after the head: being written now, or left by a crash")
    if report.unfinished:
        lines.append(f"note: {report.unfinished}")
    verdict = "whole" if report.whole else f"{len(report.faults)} fault(s)"
    lines.append(f"{report.records} records in {report.files} file(s) of {folder}: {verdict}")
    lines.append(f"anchor {report.last.seq}:{report.last.hash}")
    return lines


def anchor_of(text: str) -> Anchor:
    seq, _, digest = text.partition(":")
    if not (seq.isascii() and seq.isdigit()) or len(digest) != 64:
        raise typer.BadParameter("must be SEQ:HASH, as `gatehouse audit verify` prints it", param_hint="--anchor")
    return Anchor(int(seq), digest)


@app.command("export")
def export_command(
    client: Annotated[str | None, typer.Option(help="Only this client's records.")] = None,
    since: Annotated[str | None, typer.Option(help="Written at or after this time, ISO 8601; UTC where bare.")] = None,
    until: Annotated[str | None, typer.Option(help="Written before this time.")] = None,
    thread: Annotated[str | None, typer.Option(help="Only this thread's records.")] = None,
    folder: Folder = None,
) -> None:
    """Print records as JSON lines, byte for byte as they stand in the log."""
    wanted = Wanted(client, thread, time_of(since, "--since"), time_of(until, "--until"))
    damaged, count = Damaged(), 0
    for line in export(folder_of(folder), wanted, damaged):
        sys.stdout.buffer.write(line)
        count += 1
    sys.stdout.buffer.flush()
    typer.echo(f"{count} record(s)", err=True)
    if damaged.lines:
        raise OperatorError(f"{damaged.lines} line(s) passed over, as they are no whole record: run `audit verify`.")


def time_of(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            "must be a date or time like 2031-01-31 or 2031-01-31T09:00", param_hint=option
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@app.command("show")
def show_command(
    run_id: Annotated[str, typer.Argument(help="Id of the run, as its `run` event gives it.")], folder: Folder = None
) -> None:
    """Print the route of a run: what came back, how it was graded, which way each fork went and why."""
    records = find_run(folder_of(folder), run_id)
    if not records:
        raise OperatorError(f"The audit log has no whole record of the run {run_id}.")
    typer.echo(route(records), nl=False)
