"""``alloc serve``: the HTTP server, and the tokens of its clients."""

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.cli import options
from alloc.cli.console import print_json, print_text, show
from alloc.cli.door import say

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

app = typer.Typer(help="Serve over HTTP: solve, place, compare, explain and plan.")
tokens = typer.Typer(help="Tokens of clients: add, list, revoke.", no_args_is_help=True)
app.add_typer(tokens, name="tokens")

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|URL",
        help="Where jobs and results are kept: an SQLite file, or postgresql+psycopg://...; by "
        "default a file in your state folder. [ALLOC_DATABASE]",
        show_default=False,
    ),
]


@app.callback(invoke_without_command=True)
def serve_command(
    context: typer.Context,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Where to listen; 127.0.0.1 by default.", show_default=False
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Port; 8000 by default, 0 for any.",
            min=0,
            max=65535,
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"{options.WORKERS} By default one process for each core.",
            show_default=False,
        ),
    ] = None,
    memory_limit: Annotated[
        int | None,
        typer.Option(
            metavar="MIB", help=f"{options.MEMORY} Of one process; 4096 by default.", min=1
        ),
    ] = None,
    job_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Wall time of a job at most, 3600 by default."),
    ] = None,
    result_ttl: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How long results are kept, a day by default."),
    ] = None,
    max_body: Annotated[
        int | None,
        typer.Option(metavar="BYTES", help="Largest body of a request, 32 MiB by default."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name of this server; may be repeated."),
    ] = None,
    require_tokens: Annotated[
        bool | None,
        typer.Option("--require-tokens", help="Ask for tokens on loopback too, as behind a proxy."),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="debug, info, warning or error.", show_default=False),
    ] = None,
) -> None:
    """Serve over HTTP until Ctrl-C or SIGTERM; running jobs then have a while to end.

    On 127.0.0.1, the default, no token is needed. To be open to other machines the server needs
    tokens: see `alloc serve tokens add`. Every option can also be set by a variable ALLOC_...,
    such as ALLOC_PORT.
    """
    if context.invoked_subcommand is not None:
        context.obj = database
        return
    from alloc.server import Settings, serve

    settings = Settings.from_environment(
        host=host,
        port=port,
        database=database,
        workers=workers,
        memory_limit_mib=memory_limit,
        job_limit_s=job_limit,
        result_ttl_s=result_ttl,
        max_body_bytes=max_body,
        allowed_hosts=tuple(allow_host) if allow_host else None,
        require_tokens=require_tokens or None,
        log_level=log_level,
    )
    serve(settings)


@tokens.command("add")
def add_command(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="CLIENT", help="Name of the client.", show_default=False)
    ],
    weight: Annotated[
        float,
        typer.Option(metavar="WEIGHT", help="Its share of the workers relative to other clients."),
    ] = 1.0,
    database: DatabaseOption = None,
) -> None:
    """Make a token for a client. It is shown once, and only its hash is kept."""
    from alloc.server.tokens import add_token

    with closing(_Database(context, database)) as opened:
        token = add_token(opened.engine, name, weight)
    say(f'the token of "{name}"; keep it, it cannot be shown again:')
    print_text(token)


@tokens.command("list")
def list_command(
    context: typer.Context, database: DatabaseOption = None, json: options.JsonOption = False
) -> None:
    """List the clients that have tokens."""
    from alloc.server.tokens import list_tokens

    with closing(_Database(context, database)) as opened:
        found = list_tokens(opened.engine)
    rows = [
        {
            "name": info.name,
            "weight": info.weight,
            "created": _day(info.created),
            "revoked": _day(info.revoked),
        }
        for info in found
    ]
    if json:
        print_json(rows)
        return
    from alloc.cli.tables import table

    columns = ("name", "weight", "created", "revoked")
    show(table(columns, [[row[column] for column in columns] for row in rows]))


@tokens.command("revoke")
def revoke_command(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="CLIENT", help="Name of the client.", show_default=False)
    ],
    database: DatabaseOption = None,
) -> None:
    """Let a token be good no more; the jobs of its client go on."""
    from alloc.server.tokens import revoke_token

    with closing(_Database(context, database)) as opened:
        revoke_token(opened.engine, name)
    say(f'the token of "{name}" is revoked; a running server refuses it within seconds.')


class _Database:
    """The database of the server, opened for a command."""

    def __init__(self, context: typer.Context, database: str | None) -> None:
        from alloc.server import Settings, missing_packages

        given = database or context.obj
        settings = Settings.from_environment(database=given)
        try:
            from alloc.server.tables import open_database
        except ModuleNotFoundError as error:
            raise missing_packages(error) from None
        self.engine: Engine = open_database(settings.database)

    def close(self) -> None:
        """Let it go."""
        self.engine.dispose()


def _day(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
