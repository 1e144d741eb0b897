"""Sites: where hosts can stand, and what space, power and energy there cost."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.problems.right_sizing.series import Series, require_hourly
from alloc.units import require_finite, require_non_negative

SITE_LIMITS = "rack_units", "ports", "power_kw"
"""What hosts take up at a site."""
_MAX_PUE = 10.0
"""A site that draws ten times what its hosts draw does not exist; a percentage begins at 100."""
_MAX_CARBON = 10.0
"""Carbon dioxide of a kWh, kg, beyond which it is surely in grams; lignite emits 1.2 kg."""


@dataclass(frozen=True)
class Site:
    """A place where hosts stand: a machine room with limits, or a cloud region without.

    Parameters
    ----------
    name
        Unique name.
    rack_units
        Height free for hosts, rack units; ``None`` without limit.
    ports
        Network ports free for hosts; ``None`` without limit.
    power_kw
        Most power with cooling and losses, kW; ``None`` without limit.
    pue
        Power usage effectiveness: power of the site over power of its hosts, 1 or more.
    energy_price_per_kwh
        Price of energy, money per kWh; 1, 24 (hours of the day) or 168 values (hours of the week).
    carbon_kg_per_kwh
        Carbon dioxide, kg per kWh: 1 value (always the same), 24 (hours of the day) or 168 (hours
        of the week).
    currency
        Currency of the energy price; ``None``: that of the plan.
    """

    name: str
    rack_units: float | None = None
    ports: float | None = None
    power_kw: float | None = None
    pue: float = 1.0
    energy_price_per_kwh: Series = (0.0,)
    carbon_kg_per_kwh: Series = (0.0,)
    currency: str | None = None

    def __post_init__(self) -> None:
        where = f'site "{self.name}"'
        if not self.name:
            raise InstanceError("a site has an empty name; name it.")
        for field in ("rack_units", "ports", "power_kw"):
            value = getattr(self, field)
            if value is not None:
                require_non_negative(value, where, field)
        require_finite(self.pue, where, "pue")
        if self.pue < 1:
            raise InstanceError(
                f"{where}: pue is {self.pue:g}; the site draws at least what its hosts draw, so it "
                "is 1 or more."
            )
        if self.pue > _MAX_PUE:
            raise InstanceError(
                f"{where}: pue is {self.pue:g}; it is a ratio, for example 1.3, so divide a "
                "percentage by 100."
            )
        require_hourly(self.energy_price_per_kwh, where, "energy_price_per_kwh")
        require_hourly(self.carbon_kg_per_kwh, where, "carbon_kg_per_kwh", "mass")
        if max(self.carbon_kg_per_kwh) > _MAX_CARBON:
            raise InstanceError(
                f"{where}: carbon_kg_per_kwh is {max(self.carbon_kg_per_kwh):g}, and coal emits "
                "about 1 kg; the unit is kg per kWh, so divide grams by 1,000."
            )
