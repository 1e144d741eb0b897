"""Tokens: who a client is. Only their SHA-256 is stored.

A token has 256 random bits, so its hash needs no salt and no slow function: there is nothing to
guess. Whoever reads the database cannot use what is in it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import Engine, insert, select, update
from sqlalchemy.exc import IntegrityError

from alloc.errors import InstanceError, nearest
from alloc.server.tables import tokens
from alloc.units import require_positive

PREFIX = "alloc_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LOCAL = "local"
"""Name of whoever needs no token because the server is on loopback."""


@dataclass(frozen=True)
class Client:
    """Someone who sends requests.

    Parameters
    ----------
    name
        Its name; jobs belong to it.
    weight
        Its share of the workers relative to others, more than 0.
    """

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class TokenInfo:
    """What is known of a token; never the token itself.

    Parameters
    ----------
    name
        Name of the client.
    weight
        Its share of the workers relative to others.
    created, revoked
        Times, seconds since 1970; `revoked` is None while it is good.
    """

    name: str
    weight: float
    created: float
    revoked: float | None


def add_token(engine: Engine, name: str, weight: float = 1.0) -> str:
    """Make a token for a client and return it; nobody can show it again.

    Parameters
    ----------
    engine
        The database.
    name
        Name of the client: 1 to 64 letters, digits, dots, underscores or hyphens.
    weight
        Share of worker time of the client beside those of the others, above 0.

    Raises
    ------
    InstanceError
        If the name is taken or cannot be one, or the weight is not above 0.
    """
    if not _NAME.fullmatch(name) or name == LOCAL:
        raise InstanceError(
            f'token "{name[:80]}": a name is 1 to 64 letters, digits, ".", "_" or "-", and not '
            f'"{LOCAL}"; choose another.'
        )
    require_positive(weight, f'token "{name}"', "weight")
    token = PREFIX + secrets.token_urlsafe(32)
    values = {"name": name, "hash": hash_of(token), "weight": weight, "created": time.time()}
    try:
        with engine.begin() as connection:
            connection.execute(insert(tokens).values(**values))
    except IntegrityError:
        raise InstanceError(
            f'there is or was a token "{name}", and its jobs are kept under that name; '
            "choose another."
        ) from None
    return token


def revoke_token(engine: Engine, name: str) -> None:
    """Let a token be good no more.

    Parameters
    ----------
    engine
        The database.
    name
        Name of the client.

    Raises
    ------
    InstanceError
        If there is no such token.
    """
    change = update(tokens).where(tokens.c.name == name).values(revoked=time.time())
    with engine.begin() as connection:
        if connection.execute(change.where(tokens.c.revoked.is_(None))).rowcount == 1:
            return
    known = [info.name for info in list_tokens(engine)]
    if name in known:
        raise InstanceError(f'the token "{name}" is revoked already; nothing is left to do.')
    raise InstanceError(
        f'there is no token "{name}"{nearest(name, known) or ";"} '
        "`alloc serve tokens list` lists them."
    )


def list_tokens(engine: Engine) -> list[TokenInfo]:
    """Return all tokens, revoked ones too, in order of creation."""
    columns = (tokens.c.name, tokens.c.weight, tokens.c.created, tokens.c.revoked)
    query = select(*columns).order_by(tokens.c.created, tokens.c.name)
    with engine.connect() as connection:
        return [TokenInfo(*row) for row in connection.execute(query)]


def good_tokens(engine: Engine) -> dict[str, Client]:
    """Return the clients by the hash of their token."""
    query = select(tokens.c.hash, tokens.c.name, tokens.c.weight).where(tokens.c.revoked.is_(None))
    with engine.connect() as connection:
        return {row.hash: Client(row.name, row.weight) for row in connection.execute(query)}


def hash_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
