"""Price sheets: a table of hosts and what they cost, as offers of a planning problem.

A row is a host at a price (columns ``terms`` and ``price``), or a host with a column for each of
the terms on which it can be had. Nothing that bears on the money is guessed: currency, terms and
units come from the sheet, from the name of a column, or from the user; without them it is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NoReturn

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.table import Row, find_delimiter, read_header, read_table
from alloc.instances.topologies.host_types import machine
from alloc.planning.price_columns import (
    FILLERS,
    HOURS,
    PERIODS,
    Column,
    choose_columns,
    currency_of,
    period_of,
    words_of,
)
from alloc.problems.right_sizing import HostOffer, Site
from alloc.topology import HostType

_TERMS = {
    **{"purchase": "purchase", "buy": "purchase", "bought": "purchase"},
    **{"reserved": "reserved", "reserve": "reserved", "reservation": "reserved"},
    **{"ondemand": "on_demand", "rent": "on_demand", "rental": "on_demand", "hourly": "on_demand"},
    **{"spot": "spot", "preemptible": "spot"},
}
_VERBS = {"purchase": "buy", "reserved": "reserve", "on_demand": "rent", "spot": "spot"}
_THINGS = ("host", "server", "node", "piece", "gpu", "gpus")
"""What a price can be for, besides a period."""
_AMOUNT = re.compile(r"-?(?:[0-9]+|[0-9]{1,3}(?:[, ][0-9]{3})+)(?:\.[0-9]+)?(?:[eE][0-9]{1,2})?")
_AMBIGUOUS = re.compile(r"-?[0-9]{1,3}([.,])[0-9]{3}")
"""A number whose sign is a decimal point in some countries and one of thousands in others."""
_MAX_OFFERS = 200
"""Most rows: the offers of a plan are chosen by hand, and each makes the program larger."""
_DEFAULT_TERM_QUARTERS = 4
"""A reservation of unknown term lasts a year, the shortest that clouds commonly sell."""
_DEFAULT_SITE = "site"


@dataclass(frozen=True)
class PriceSheet:
    """What a price sheet offers.

    Parameters
    ----------
    offers
        The offers, in the order of the sheet.
    sites
        The sites that it names, or one site.
    currency
        Currency of all prices.
    speeds
        Speed of each GPU type in relation to the GPUs of the history, where the sheet says it.
    notes
        How the sheet was read, in sentences: which column is what, and what was assumed.
    """

    offers: tuple[HostOffer, ...]
    sites: tuple[Site, ...]
    currency: str
    speeds: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types that are offered, in the order of the sheet."""
        return tuple(dict.fromkeys(offer.gpu_type for offer in self.offers))


def read_price_sheet(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    currency: str | None = None,
) -> PriceSheet:
    """Read a price sheet.

    Parameters
    ----------
    path
        A table in separated text, plain or gzip, with one line of column names.
    columns
        Which column is what, by the keys of `alloc.planning.price_columns.KEYS`; the others are
        told by their names.
    currency
        Currency of the prices; None: the sheet says it, in a column, in the names of columns or
        beside the numbers.

    Returns
    -------
    PriceSheet
        Prices per quarter for reservations and per hour for hosts rented by the hour, in the one
        currency of the sheet.

    Raises
    ------
    InstanceError
        If the sheet cannot be read, a column is unknown, or a row has no price, currency, unit or
        host that can be understood, or is there twice.
    """
    file = Path(path).name
    delimiter = find_delimiter(path)
    header = read_header(path, delimiter=delimiter)
    chosen = choose_columns(header, dict(columns or {}), file)
    log = ReportLog()
    rows = read_table(path, (), lambda row: row, log, delimiter=delimiter)
    for tally in log.report().skipped:
        raise InstanceError(
            f"{file}: a row {tally.reason} ({tally.examples[0]}); an offer that is left out would "
            "change the plan, so correct it."
        )
    if not rows:
        raise InstanceError(f"{file}: has no row below its column names; add an offer.")
    if len(rows) > _MAX_OFFERS:
        raise InstanceError(
            f"{file}: has {len(rows)} rows, and a plan takes up to {_MAX_OFFERS}; keep those that "
            "are worth a thought."
        )
    return _Sheet(file, chosen, currency, delimiter).read(rows)


class _Sheet:
    """Makes offers of the rows of one sheet."""

    def __init__(
        self, file: str, columns: Mapping[str, Column], currency: str | None, delimiter: str
    ) -> None:
        self.file = file
        self.delimiter = delimiter
        self.columns = columns
        self.currency = currency and (currency_of(currency.lower()) or currency.upper())
        self.said_by = "the option" if currency else ""
        self.lines: dict[tuple[str, str, tuple[str, ...]], int] = {}
        self.speeds: dict[str, tuple[float, int]] = {}
        self.assumed: dict[str, None] = {}

    def read(self, rows: Sequence[Row]) -> PriceSheet:
        """Return what the sheet offers."""
        offers = [offer for row in rows for offer in self._offers(row)]
        if not offers:
            raise InstanceError(f"{self.file}: has no price in any row; fill in what hosts cost.")
        if self.currency is None:
            raise InstanceError(
                f"{self.file}: does not say in which currency its prices are; add a column "
                "currency, or give it with --currency, for example --currency EUR."
            )
        names = dict.fromkeys(site for offer in offers for site in offer.sites)
        sites = tuple(Site(name) for name in names or (_DEFAULT_SITE,))
        said = ", ".join(f"{key}={column}" for key, column in self.columns.items())
        return PriceSheet(
            tuple(offers),
            sites,
            self.currency,
            {name: speed for name, (speed, _) in self.speeds.items()},
            (f"Columns of {self.file}: {said}.", *self.assumed),
        )

    def _offers(self, row: Row) -> list[HostOffer]:
        host = self._host(row)
        if "terms" in self.columns:
            text = self._text(row, "terms")
            terms = _TERMS.get("".join(words_of(text)))
            if terms is None:
                self._fail(
                    row,
                    f'the terms "{text}" are unknown'
                    f"{nearest(text, _TERMS) or ';'} give purchase, reserved, on_demand or spot.",
                )
            price = self._price(row, "price", terms, host.num_gpus)
            if price is None:
                self._fail(row, "has no price; fill it in, or take the row out.")
            prices = {terms: price}
        else:
            found = {
                terms: self._price(row, terms, terms, host.num_gpus)
                for terms in _VERBS
                if terms in self.columns
            }
            prices = {terms: price for terms, price in found.items() if price is not None}
            if not prices:
                self._fail(row, "has no price; fill one in, or take the row out.")
        return [self._offer(row, host, terms, price) for terms, price in prices.items()]

    def _offer(self, row: Row, host: HostType, terms: str, price: float) -> HostOffer:
        named = (site.strip() for site in self._text(row, "site").split("|"))
        sites = tuple(dict.fromkeys(site for site in named if site))
        key = (host.name, terms, tuple(sorted(sites)))
        if key in self.lines:
            self._fail(
                row,
                f'"{host.name}" is offered on the terms {terms} on line {self.lines[key]} too; '
                "keep one of the two, or give them different names.",
            )
        self.lines[key] = row.line
        bought, hourly = terms == "purchase", terms in ("on_demand", "spot")
        busy = self._power(row, "busy_kw", host) if bought else 0.0
        idle = self._power(row, "idle_kw", host) if bought else 0.0
        if bought and busy and "idle_kw" not in self.columns:
            idle = busy
            self._assume("Hosts draw as much power idle as under load, for the sheet says no more.")
        if bought and idle and "busy_kw" not in self.columns:
            busy = idle
            self._assume("Hosts draw as much power under load as idle, for the sheet says no more.")
        place = f" at {' or '.join(sites)}" if sites else ""
        try:
            return HostOffer(
                f"{_VERBS[terms]} {host.name}{place}",
                host,
                terms,  # type: ignore[arg-type]
                price,
                sites=sites,
                most_hosts=self._whole(row, "max_hosts"),
                lead_time_quarters=0 if hourly else self._quarters(row, "lead_time"),
                service_quarters=self._service(row, terms),
                residual_fraction=self._fraction(row, "residual") if bought else 0.0,
                maintenance_per_quarter=self._maintenance(row, host) if bought else 0.0,
                idle_kw=idle,
                busy_kw=busy,
                rack_units=self._number(row, "rack_units") or 0.0 if bought else 0.0,
                ports=self._number(row, "ports") or 0.0 if bought else 0.0,
            )
        except InstanceError as error:
            if str(error).startswith(f"{self.file}, line"):
                raise
            raise InstanceError(f"{self.file}, line {row.line}: {error}") from None

    def _host(self, row: Row) -> HostType:
        name, gpu_type = self._text(row, "host"), self._text(row, "gpu_type")
        gpus = self._whole(row, "gpus")
        if gpus == 0:
            self._fail(row, "its hosts have 0 GPUs; offer hosts that run GPU jobs.")
        if name and (gpus is None or not gpu_type):
            try:
                known = machine(name)
            except InstanceError:
                missing = "gpus" if gpus is None else "gpu_type"
                self._fail(
                    row,
                    f'"{name}" is no machine that alloc knows, and no column says its {missing}; '
                    "add columns gpus and gpu_type.",
                )
            gpus, gpu_type = gpus or known.num_gpus, gpu_type or str(known.gpu_type)
        if gpus is None or not gpu_type:
            self._fail(row, "does not say what the host is; give its gpu_type and gpus.")
        self._speed(row, gpu_type)
        return HostType(name or f"{gpus}x-{gpu_type}", gpus, gpu_type)

    def _speed(self, row: Row, gpu_type: str) -> None:
        speed = self._number(row, "speed")
        if speed is None:
            return
        if speed <= 0:
            self._fail(row, f"speed is {speed:g}; give a number above 0, 1 for as fast.")
        before, line = self.speeds.setdefault(gpu_type, (speed, row.line))
        if before != speed:
            self._fail(
                row,
                f'speed of "{gpu_type}" is {speed:g}, and {before:g} on line {line}; give one.',
            )

    def _price(self, row: Row, key: str, terms: str, gpus: int) -> float | None:
        """Return money per host, quarter or hour, as the terms have it; None for an empty cell."""
        text = self._text(row, key)
        column = self.columns[key]
        if not text:
            return None
        said = self._text(row, "currency")
        self._take_currency(row, currency_of(said.lower()) or said.upper(), "its column currency")
        self._take_currency(row, column.currency or "", f'the column "{column.name}"')
        price = self._amount(row, text, column.name)
        if price <= 0:
            self._fail(
                row,
                f"{column.name} is {price:g}; a price is above 0, so leave the cell empty where a "
                "host is not offered so.",
            )
        words = [word for word in words_of(self._text(row, "per")) if word not in FILLERS]
        per_gpu = column.per_gpu or bool({"gpu", "gpus"} & {*words})
        factor = self._per(row, column, words, terms)
        # What is paid for a month or more has no thousandths.
        is_long = terms in ("purchase", "reserved") and factor <= HOURS["quarter"] / HOURS["month"]
        self._require_clear(row, text, is_long, column.name)
        return price * (gpus if per_gpu else 1) * factor

    def _require_clear(self, row: Row, text: str, is_long: bool, name: str) -> None:
        """Refuse a price that is a thousand times as high in another country."""
        found = _AMBIGUOUS.search(text)
        if found is None or not _AMBIGUOUS.fullmatch(re.sub(r"[A-Z]{3}|[€£$ ]", "", text)):
            return
        unclear = is_long if found[1] == "." else not is_long or self.delimiter == ";"
        if unclear:
            number = found[0]
            self._fail(
                row,
                f'{name} is "{text}", with a sign that may stand before thousands or before '
                f"decimals; write {number.replace(found[1], '')} or "
                f"{number.replace(found[1], '.')}0.",
            )

    def _per(self, row: Row, column: Column, words: Sequence[str], terms: str) -> float:
        """Return by what to multiply a price, to have it per host, quarter or hour."""
        period = column.period
        if words:
            others = [word for word in words if word not in PERIODS and word not in _THINGS]
            try:
                period = period_of(words) or column.period
            except ValueError:
                others = ["several periods"]
            if others:
                self._fail(
                    row,
                    f'the price is per "{self._text(row, "per")}"; give host, hour, month, quarter '
                    "or year, and GPU before it if it is for one.",
                )
            if column.period not in (None, period):
                self._fail(
                    row,
                    f'the price is per {period}, and its column "{column.name}" says '
                    f"{column.period}; correct one of them.",
                )
        if terms == "purchase":
            if period is not None:
                self._fail(row, f"a purchase has no price per {period}; correct terms or unit.")
            return 1.0
        if terms == "reserved":
            if period is None:
                self._fail(
                    row,
                    f'"{column.name}" does not say for how long a reservation has this price; name '
                    f"the column {column.name}_per_month (hour, quarter, year), or add a column "
                    "per.",
                )
            return HOURS["quarter"] / HOURS[period]
        if period is None:
            self._assume("Prices of hosts that are rented are per hour, for the sheet says none.")
        return 1.0 / HOURS[period or "hour"]

    def _take_currency(self, row: Row, code: str, where: str) -> None:
        if not code:
            return
        if self.currency is None:
            self.currency, self.said_by = code, f"line {row.line}"
        elif code != self.currency:
            self._fail(
                row,
                f"{where} says {code}, and {self.said_by} {self.currency}; convert the prices to "
                "one currency, for alloc knows no exchange rates.",
            )

    def _amount(self, row: Row, text: str, name: str) -> float:
        """Return a number with or without a currency and a sign between thousands."""
        number = text
        for word in re.findall(r"[A-Z]{3}|[€£]", text):
            code = currency_of(word.lower())
            if code is None:
                break
            self._take_currency(row, code, f'"{text}"')
            number = number.replace(word, "")
        number = number.replace("$", "").strip()
        if not _AMOUNT.fullmatch(number):
            self._fail(row, f'{name} is "{text}"; write a number such as 1200.50.')
        return float(re.sub(r"[, ]", "", number))

    def _quarters(self, row: Row, key: str) -> int:
        """Return a length of time in whole quarters, rounded up."""
        value = self._number(row, key)
        if not value:
            return 0
        period = self.columns[key].period
        if period is None:
            self._fail(
                row,
                f"{self.columns[key].name} is {value:g} of no unit; name the column {key}_weeks "
                "(days, months, quarters, years).",
            )
        return math.ceil(value * HOURS[period] / HOURS["quarter"] - 1e-9)

    def _service(self, row: Row, terms: str) -> int:
        default = HostOffer.service_quarters
        key = {"purchase": "service", "reserved": "term"}.get(terms)
        if key is None:
            return default
        if self._text(row, key):
            quarters = self._quarters(row, key)
            if not quarters:
                self._fail(
                    row, f"{self.columns[key].name} is 0; give the time above 0, or nothing."
                )
            return quarters
        if key == "service":
            self._assume(f"Bought hosts live {default // 4} years, for the sheet says nothing.")
            return default
        self._assume("Reservations last a year, for the sheet says nothing.")
        return _DEFAULT_TERM_QUARTERS

    def _maintenance(self, row: Row, host: HostType) -> float:
        value = self._number(row, "maintenance")
        if not value:
            return 0.0
        column = self.columns["maintenance"]
        if column.period is None:
            self._fail(
                row,
                f"{column.name} is {value:g} of no unit; name the column maintenance_per_quarter "
                "(month, year).",
            )
        each = host.num_gpus if column.per_gpu else 1
        return value * each * HOURS["quarter"] / HOURS[column.period]

    def _power(self, row: Row, key: str, host: HostType) -> float:
        value = self._number(row, key)
        if not value:
            return 0.0
        column = self.columns[key]
        if column.kw is None:
            self._fail(
                row, f"{column.name} is {value:g} of no unit; name the column {key}, or in watts."
            )
        return value * column.kw * (host.num_gpus if column.per_gpu else 1)

    def _fraction(self, row: Row, key: str) -> float:
        text = self._text(row, key)
        if text.endswith("%"):
            return self._amount(row, text.rstrip("% "), self.columns[key].name) / 100
        percent = key in self.columns and "%" in self.columns[key].name
        return (self._number(row, key) or 0.0) / (100 if percent else 1)

    def _whole(self, row: Row, key: str) -> int | None:
        value = self._number(row, key)
        if value is None:
            return None
        if not value.is_integer():
            self._fail(row, f"{self.columns[key].name} is {value:g}; give a whole number.")
        return int(value)

    def _number(self, row: Row, key: str) -> float | None:
        text = self._text(row, key)
        if not text:
            return None
        value = self._amount(row, text, self.columns[key].name)
        if value < 0:
            self._fail(row, f"{self.columns[key].name} is {value:g}; give 0 or more.")
        return value

    def _text(self, row: Row, key: str) -> str:
        """Return a cell without blanks around it; empty where it, or its column, is not there."""
        if key not in self.columns:
            return ""
        text = row.values[self.columns[key].name]
        if key == "site":  # which may be called NA
            return "" if text == "-" else text
        return "" if text.lower() in ("-", "n/a", "na", "none", "null") else text

    def _assume(self, sentence: str) -> None:
        self.assumed[sentence] = None

    def _fail(self, row: Row, sentence: str) -> NoReturn:
        raise InstanceError(f"{self.file}, line {row.line}: {sentence}")
