"""Offers: hosts that can be bought, reserved, or rented by the hour; and hosts owned already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.topology import HostType
from alloc.units import format_number, require_count, require_non_negative

Terms = Literal["purchase", "reserved", "on_demand", "spot"]
"""How hosts are acquired: bought; rented for a fixed number of quarters; rented by the hour;
rented by the hour until the provider takes them back."""

_MAX_KW_PER_GPU = 100.0
"""Power of a host for each of its GPUs beyond which it is surely in watts; large ones draw 2 kW."""


@dataclass(frozen=True)
class HostOffer:
    """A kind of host on certain terms.

    Parameters
    ----------
    name
        Unique name.
    host
        What one host is; it has GPUs of one type.
    terms
        ``purchase``, ``reserved``, ``on_demand`` or ``spot``.
    price
        Money per host (purchase), per host and quarter (reserved), per host and hour (on_demand,
        spot).
    sites
        Names of the sites where it is offered; empty: all.
    most_hosts
        Most hosts ordered for a site in a quarter, or in use at a site at a time (on_demand, spot);
        ``None`` without limit.
    lead_time_quarters
        Quarters from order to service; hosts rented by the hour have none.
    service_quarters
        Quarters in service: the life of a bought host, the term of a reservation.
    residual_fraction
        Purchase: what a host is worth when new at the end of the plan, as a fraction of its price;
        it falls in a straight line to 0 at the end of its life.
    maintenance_per_quarter
        Money per bought host and quarter.
    idle_kw, busy_kw
        Power of one host without and under full load, kW, without cooling; 0 where the provider
        pays for it.
    rack_units, ports
        Height and network ports that one host takes.
    currency
        Currency of the prices; ``None``: that of the plan.
    """

    name: str
    host: HostType
    terms: Terms
    price: float
    sites: tuple[str, ...] = ()
    most_hosts: int | None = None
    lead_time_quarters: int = 0
    service_quarters: int = 16
    residual_fraction: float = 0.0
    maintenance_per_quarter: float = 0.0
    idle_kw: float = 0.0
    busy_kw: float = 0.0
    rack_units: float = 0.0
    ports: float = 0.0
    currency: str | None = None

    def __post_init__(self) -> None:
        where = f'offer "{self.name}"'
        if not self.name:
            raise InstanceError("an offer has an empty name; name it.")
        if self.terms not in get_args(Terms):
            raise InstanceError(
                f'{where}: terms is "{self.terms}"'
                f"{nearest(str(self.terms), get_args(Terms)) or ';'} known: "
                f"{', '.join(get_args(Terms))}."
            )
        if self.host.gpu_type is None or self.host.num_gpus < 1:
            raise InstanceError(f"{where}: its host has no GPU; offer hosts that run GPU jobs.")
        for field in (
            "price",
            "maintenance_per_quarter",
            "idle_kw",
            "busy_kw",
            "rack_units",
            "ports",
            "residual_fraction",
        ):
            require_non_negative(getattr(self, field), where, field)
        for field in ("idle_kw", "busy_kw"):
            value = getattr(self, field)
            if value > _MAX_KW_PER_GPU * self.gpus:
                raise InstanceError(
                    f"{where}: {field} is {format_number(value)}, more than "
                    f"{_MAX_KW_PER_GPU:g} kW for each GPU; the unit is kW, so divide watts by "
                    "1,000."
                )
        if self.busy_kw < self.idle_kw:
            raise InstanceError(
                f"{where}: busy_kw {self.busy_kw:g} is below idle_kw {self.idle_kw:g}; a host "
                "under load draws at least what it draws idle."
            )
        if self.residual_fraction > 1:
            raise InstanceError(
                f"{where}: residual_fraction is {self.residual_fraction:g}; it is a fraction of "
                "the price, at most 1."
            )
        require_count(self.lead_time_quarters, where, "lead_time_quarters")
        require_count(self.service_quarters, where, "service_quarters", least=1)
        if self.most_hosts is not None:
            require_count(self.most_hosts, where, "most_hosts")
        self._require_terms_fit(where)

    def _require_terms_fit(self, where: str) -> None:
        hourly = self.is_hourly
        for field, meant in (
            ("lead_time_quarters", not hourly),
            ("maintenance_per_quarter", self.terms == "purchase"),
            ("residual_fraction", self.terms == "purchase"),
            ("idle_kw", not hourly),
            ("busy_kw", not hourly),
            ("rack_units", not hourly),
            ("ports", not hourly),
        ):
            value = getattr(self, field)
            if value and not meant:
                raise InstanceError(
                    f"{where}: {field} is {value:g}, which hosts on the terms {self.terms} do not "
                    "have; set it to 0."
                )

    @property
    def is_hourly(self) -> bool:
        """Whether hosts are rented by the hour, so that their number may follow the load."""
        return self.terms in ("on_demand", "spot")

    @property
    def gpu_type(self) -> str:
        """GPU type of the hosts."""
        assert self.host.gpu_type is not None
        return self.host.gpu_type

    @property
    def gpus(self) -> int:
        """GPUs of one host."""
        return self.host.num_gpus

    def at(self, site: str) -> bool:
        """Return whether it is offered at a site."""
        return not self.sites or site in self.sites

    def takes_up(self, field: str, pue: float) -> float:
        """Return what a host takes up of a limit of a site.

        Parameters
        ----------
        field
            ``rack_units``, ``ports`` or ``power_kw`` (kW, with all GPUs busy).
        pue
            Power of the site over that of its hosts, 1 or more; for ``power_kw`` only.
        """
        return self.busy_kw * pue if field == "power_kw" else float(getattr(self, field))


@dataclass(frozen=True)
class Owned:
    """Hosts that are in service when the plan begins.

    Parameters
    ----------
    offer
        Name of an offer on the terms ``purchase`` or ``reserved``: what the hosts are and cost to
        run. If they are no longer sold, set the offer's ``most_hosts`` to 0.
    site
        Name of the site where they stand.
    count
        Number of hosts, 1 or more.
    quarters_left
        Quarters until they retire, or the reservation ends.
    """

    offer: str
    site: str
    count: int
    quarters_left: int

    def __post_init__(self) -> None:
        where = f'owned hosts of offer "{self.offer}" at "{self.site}"'
        require_count(self.count, where, "count", least=1)
        require_count(self.quarters_left, where, "quarters_left", least=1)
