"""Clients: who may send requests, as the tokens in the database say."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import Engine

from alloc.server.tokens import Client, good_tokens, hash_of

_LOOK_AGAIN_S = 0.5
"""Shortest time between two looks for a new token; guesses must not become database reads."""


class Clients:
    """The clients that have good tokens.

    Parameters
    ----------
    engine
        The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._by_hash: dict[str, Client] = {}
        self._weights: dict[str, float] = {}
        self._looked = 0.0

    async def refresh(self) -> None:
        """Read the tokens that are good."""
        self._by_hash = await asyncio.to_thread(good_tokens, self._engine)
        self._weights = {client.name: client.weight for client in self._by_hash.values()}

    async def of(self, token: str) -> Client | None:
        """Return the client of a token, or None if it is unknown or revoked."""
        digest = hash_of(token)
        now = time.monotonic()
        if digest not in self._by_hash and now - self._looked >= _LOOK_AGAIN_S:
            self._looked = now
            await self.refresh()
        return self._by_hash.get(digest)

    def weight_of(self, name: str) -> float:
        """Return the share of the workers that a client has."""
        return self._weights.get(name, 1.0)
