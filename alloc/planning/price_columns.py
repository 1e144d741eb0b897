"""Columns of price sheets: which one is what, and in which unit, as their names tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError, nearest

KEYS: Mapping[str, str] = {
    "host": "name of the kind of host",
    "gpu_type": "type of its GPUs",
    "gpus": "GPUs of one host",
    "terms": "how it is had: purchase, reserved, on_demand or spot",
    "price": "price on these terms",
    "per": "what the price is for: host (purchase), hour, month, quarter or year",
    "purchase": "price of one host",
    "reserved": "price of a reservation, per hour, month, quarter or year",
    "on_demand": "price of renting by the hour",
    "spot": "price of renting by the hour until it is taken back",
    "currency": "currency of the row's prices",
    "site": "where it is offered, several with | between them",
    "speed": "speed of its GPUs in relation to those of the history",
    "lead_time": "from order to service, in days, weeks, months or quarters",
    "service": "life of a bought host, in years or quarters",
    "term": "term of a reservation, in years, months or quarters",
    "maintenance": "cost of running a bought host, per month, quarter or year",
    "residual": "what a host is worth when new at the end of the plan, part of its price",
    "idle_kw": "power of a bought host without load, kW or W",
    "busy_kw": "power of a bought host under load, kW or W",
    "rack_units": "height of a bought host, rack units",
    "ports": "network ports of a bought host",
    "max_hosts": "most hosts that can be had",
}
"""What a column can be, and what it means."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    "host": ("host", "hosttype", "server", "servertype", "machine", "node", "instance", "sku"),
    "gpu_type": ("gputype", "gpu", "gpumodel", "accelerator", "gpuname"),
    "gpus": ("gpus", "numgpus", "gpucount", "gpusperhost", "gpushost", "ngpus"),
    "terms": ("terms", "kind", "offer", "contract", "model"),
    "price": ("price", "cost", "listprice"),
    "per": ("per", "unit", "priceper", "period"),
    "purchase": ("purchase", "buy", "purchaseprice", "buyprice", "pricetobuy"),
    "reserved": ("reserved", "reservedprice", "reserve", "reservation"),
    "on_demand": ("ondemand", "ondemandprice", "rent", "rental", "rentprice", "pricetorent"),
    "spot": ("spot", "spotprice", "preemptible"),
    "currency": ("currency",),
    "site": ("site", "sites", "region", "location", "room", "zone"),
    "speed": ("speed", "relativespeed", "speedup"),
    "lead_time": ("leadtime", "lead", "delivery", "deliverytime", "delay"),
    "service": ("service", "life", "lifetime", "depreciation", "servicelife"),
    "term": ("term", "commitment", "reservedterm", "reservationterm"),
    "maintenance": ("maintenance", "support"),
    "residual": ("residual", "residualfraction", "residualvalue"),
    "idle_kw": ("idle", "idlepower"),
    "busy_kw": ("busy", "busypower", "power", "maxpower", "tdp"),
    "rack_units": ("rackunits", "height", "rackheight", "u"),
    "ports": ("ports", "networkports"),
    "max_hosts": ("maxhosts", "available", "stock", "availability", "most"),
}

HOURS = {
    "hour": 1.0,
    "day": 24.0,
    "week": 168.0,
    "month": 730.0,
    "quarter": 2190.0,
    "year": 8760.0,
}
"""Hours of a period; a year has 365 days, and every month a twelfth of them."""
PERIODS = {
    **{name: name for name in HOURS},
    **{f"{name}s": name for name in HOURS},
    **{"h": "hour", "hr": "hour", "hourly": "hour", "monthly": "month", "mo": "month"},
    **{"quarterly": "quarter", "yearly": "year", "annual": "year", "annually": "year"},
    **{"daily": "day", "weekly": "week", "a": "year"},
}
"""What people call periods, by the key of `HOURS`."""
_KW = {"kw": 1.0, "w": 0.001, "watts": 0.001, "watt": 0.001}
"""Kilowatts of one unit of power."""
_AMOUNTS = frozenset(
    ("price", "purchase", "reserved", "on_demand", "spot", "maintenance", "idle_kw", "busy_kw")
)
"""Columns whose numbers may be for one GPU of a host."""
FILLERS = frozenset(("per", "in", "of", "the", "each", "one", "for"))
"""Words that say nothing of their own."""
TERMS = ("purchase", "reserved", "on_demand", "spot")
"""Columns of a sheet that has one for each of the terms."""
_CURRENCIES = (
    *("AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "ILS", "INR", "JPY"),
    *("KRW", "MXN", "NOK", "NZD", "PLN", "SEK", "SGD", "TRY", "TWD", "USD", "ZAR"),
)
_SIGNS = {"€": "EUR", "£": "GBP"}
"""Signs that mean one currency; those of the dollar and the yen mean several."""


@dataclass(frozen=True)
class Column:
    """A column of the sheet: its name, and what the name says of currency and units.

    Parameters
    ----------
    name
        Its name in the file.
    period
        Period in it, a key of `HOURS`, or None.
    kw
        Kilowatts of one unit, or None where it names no unit of power.
    currency
        Currency in it, or None.
    per_gpu
        Whether it is money or power of one GPU of a host.
    """

    name: str
    period: str | None = None
    kw: float | None = None
    currency: str | None = None
    per_gpu: bool = False

    def __str__(self) -> str:
        return f"{self.name} (per GPU)" if self.per_gpu else self.name


def parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    """Return the column of each key that ``KEY=COLUMN,...`` names.

    Raises
    ------
    InstanceError
        If a key is unknown, comes twice or has no column.
    """
    found: dict[str, str] = {}
    for pair in (part for text in pairs for part in text.split(",") if part.strip()):
        key, _, column = (part.strip() for part in pair.partition("="))
        if key not in KEYS:
            raise InstanceError(
                f'price map: "{key}" is nothing that a column can be{nearest(key, KEYS) or "."} '
                f"Known are {', '.join(KEYS)}."
            )
        if not column:
            raise InstanceError(f'price map: "{key}" has no column; write {key}=COLUMN.')
        if key in found:
            raise InstanceError(f'price map: "{key}" is named twice; name one column for it.')
        found[key] = column
    return found


def choose_columns(header: Sequence[str], given: Mapping[str, str], file: str) -> dict[str, Column]:
    """Return the column of each key, as the user said or by its name.

    Parameters
    ----------
    header
        Names of the columns.
    given
        What `parse_columns` returned.
    file
        The file, for messages.

    Raises
    ------
    InstanceError
        If a column is unknown, two are the same, or none is a price or the host.
    """
    listed = ", ".join(f'"{name[:40]}"' for name in header[:40])
    for key, name in given.items():
        if name not in header:
            raise InstanceError(
                f'{file}: has no column "{name}" for {key}{nearest(name, header) or "."} Its '
                f"columns are {listed}."
            )
    chosen = {key: _column(key, name, file) for key, name in given.items()}
    for name in header:
        if not name or name in given.values():
            continue
        guess = _key_of(name)
        if guess is None:
            raise InstanceError(
                f'{file}: column "{name}" is nothing that a price sheet has; say what it is with '
                f"the price map, for example price={name}, or take it out. Known are "
                f"{', '.join(KEYS)}."
            )
        if guess in chosen:
            if guess in given:
                continue
            raise InstanceError(
                f'{file}: both "{chosen[guess].name}" and "{name}" look like the {guess}; say '
                f"which one it is with the price map {guess}=COLUMN, or take one out."
            )
        chosen[guess] = _column(guess, name, file)
    wide = [key for key in TERMS if key in chosen]
    if not wide and not {"terms", "price"} <= chosen.keys():
        raise InstanceError(
            f"{file}: no column is a price; name them purchase, reserved, on_demand or spot, or "
            f"give one column for terms and one for the price. Its columns are {listed}."
        )
    if wide and ("price" in chosen or "terms" in chosen):
        raise InstanceError(
            f'{file}: has a column for the terms "{wide[0]}" and one for '
            f"{'terms' if 'terms' in chosen else 'a price'} too; keep one way to write prices."
        )
    if "host" not in chosen and "gpu_type" not in chosen:
        raise InstanceError(
            f"{file}: no column says what the hosts are; add host, or gpu_type and gpus. Its "
            f"columns are {listed}."
        )
    return chosen


def words_of(name: str) -> list[str]:
    """Return the words of a name in small letters; PricePerGPU is three."""
    parted = re.sub(r"(?<=[a-z]{2})(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[^a-z0-9€£]+", parted.lower()) if word]


def period_of(words: Sequence[str]) -> str | None:
    """Return the one period that words name, a key of `HOURS`; None if they name none.

    Raises
    ------
    ValueError
        If they name several.
    """
    # "a" is a year after a stroke, and no more than an article beside another period.
    periods = {PERIODS[word] for word in words if word in PERIODS and word != "a"}
    if len(periods) > 1:
        raise ValueError(f"{' and '.join(sorted(periods))}")
    if "a" in words and not periods:
        return "year"
    return next(iter(periods), None)


def _column(key: str, name: str, file: str) -> Column:
    words = words_of(name)
    try:
        period = period_of(words)
    except ValueError as error:
        raise InstanceError(
            f'{file}: column "{name}" names more than one period ({error}); name the one that its '
            "numbers are for."
        ) from None
    together = "".join(words)
    return Column(
        name,
        period,
        next((_KW[word] for word in words if word in _KW), None),
        next((found for word in words if (found := currency_of(word)) is not None), None),
        # A number before it, as in "price of an 8 GPU server", is of the host.
        key in _AMOUNTS and "gpu" in together and re.search("[0-9]x?gpu", together) is None,
    )


def currency_of(word: str) -> str | None:
    """Return the currency that a word or sign means, or None."""
    if word in _SIGNS:
        return _SIGNS[word]
    return word.upper() if word.upper() in _CURRENCIES else None


def _key_of(name: str) -> str | None:
    """Return what a column is by its name, or None."""
    every = words_of(name)
    words = [word for word in every if word not in FILLERS]
    without = [word for word in words if currency_of(word) is None and word not in _KW]
    plain = [word for word in without if word not in PERIODS]
    for parts in (every, words, without, plain, [word for word in plain if word != "gpu"]):
        joined = "".join(parts)
        for key, names in _NAMES.items():
            if joined and joined in (*names, key.replace("_", "")):
                # A number of GPUs is no number of hosts.
                return None if key == "max_hosts" and "gpu" in words else key
    return None
