"""The structure of planning documents: problems, plans and results of plans."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alloc.capacity.demand import JobClass, Scenario, Tightening
from alloc.capacity.goals import Measure, ServiceGoal
from alloc.capacity.offers import HostOffer, Terms
from alloc.capacity.plan import CostBreakdown, MarginalValue, PlanResult, Relief
from alloc.capacity.problem import PlanningProblem
from alloc.capacity.sites import Site
from alloc.documents.models import CertificatePart, Document, HostTypePart, Part, Whole

_HOURLY = "1 value (always the same), 24 (hours of the day) or 168 (hours of the week)"


class SitePart(Part):
    """A place where hosts stand: a machine room with limits, or a cloud region without."""

    name: str = Field(description="Unique name.")
    rack_units: float | None = Field(
        Site.rack_units, description="Height free for hosts, rack units; null without limit."
    )
    ports: float | None = Field(
        Site.ports, description="Network ports free for hosts; null without limit."
    )
    power_kw: float | None = Field(
        Site.power_kw, description="Most power with cooling and losses, kW; null without limit."
    )
    pue: float = Field(Site.pue, description="Power usage effectiveness, 1 or more.")
    energy_price_per_kwh: list[float] = Field(
        list(Site.energy_price_per_kwh), description=f"Money per kWh: {_HOURLY}."
    )
    carbon_kg_per_kwh: list[float] = Field(
        list(Site.carbon_kg_per_kwh), description=f"Carbon dioxide, kg per kWh: {_HOURLY}."
    )
    currency: str | None = Field(
        Site.currency, description="Currency of the energy price; null: that of the plan."
    )


class HostOfferPart(Part):
    """A kind of host on certain terms."""

    name: str = Field(description="Unique name.")
    host: HostTypePart = Field(description="What one host is; it has GPUs of one type.")
    terms: Terms = Field(description="How hosts are acquired.")
    price: float = Field(
        description="Money per host (purchase), per host and quarter (reserved), per host and hour "
        "(on_demand, spot)."
    )
    sites: list[str] = Field(
        list(HostOffer.sites), description="Names of the sites where it is offered; empty: all."
    )
    most_hosts: Whole | None = Field(
        HostOffer.most_hosts,
        description="Most hosts ordered for a site in a quarter, or in use at a site at a time "
        "(on_demand, spot); null without limit.",
    )
    lead_time_quarters: Whole = Field(
        HostOffer.lead_time_quarters, description="Quarters from order to service."
    )
    service_quarters: Whole = Field(
        HostOffer.service_quarters,
        description="Life of a bought host, term of a reservation, quarters.",
    )
    residual_fraction: float = Field(
        HostOffer.residual_fraction,
        description="What a host new at the end of the plan is worth, as a fraction of its price.",
    )
    maintenance_per_quarter: float = Field(
        HostOffer.maintenance_per_quarter, description="Money per bought host and quarter."
    )
    idle_kw: float = Field(HostOffer.idle_kw, description="Power of a host without load, kW.")
    busy_kw: float = Field(HostOffer.busy_kw, description="Power of a host under full load, kW.")
    rack_units: float = Field(HostOffer.rack_units, description="Height of a host, rack units.")
    ports: float = Field(HostOffer.ports, description="Network ports of a host.")
    currency: str | None = Field(
        HostOffer.currency, description="Currency of the prices; null: that of the plan."
    )


class OwnedPart(Part):
    """Hosts that are in service when the plan begins."""

    offer: str = Field(description="Name of an offer on the terms purchase or reserved.")
    site: str = Field(description="Name of the site where they stand.")
    count: Whole = Field(description="Number of hosts, 1 or more.")
    quarters_left: Whole = Field(description="Quarters until they retire, 1 or more.")


class JobOptionPart(Part):
    """One way to run a job."""

    gpu_type: str = Field(description="GPU type.")
    gpus: Whole = Field(description="GPUs held, 1 or more.")
    hours: float = Field(description="Hours from start to completion, above 0.")


class ServiceGoalPart(Part):
    """A goal of a class of jobs."""

    measure: Measure = Field(description="jct: arrival to completion; wait: arrival to start.")
    hours: float = Field(description="Most hours.")
    fraction: float | None = Field(
        ServiceGoal.fraction,
        description="Fraction of jobs that keep to them, between 0 and 1; null: the mean does.",
    )


class JobClassPart(Part):
    """Jobs that are alike for planning."""

    name: str = Field(description="Unique name.")
    options: list[JobOptionPart] = Field(description="The ways to run a job, at least one.")
    goal: ServiceGoalPart | None = Field(
        None, description="What its jobs are promised; null: only that they are served."
    )
    sites: list[str] = Field(
        list(JobClass.sites), description="Names of the sites where its data may lie; empty: all."
    )
    interruptible: bool = Field(
        JobClass.interruptible, description="Whether its jobs may run on spot hosts."
    )
    spot_overhead: float = Field(
        JobClass.spot_overhead, description="Work repeated on spot hosts, fraction of the work."
    )
    critical: bool = Field(
        JobClass.critical, description="Whether it is served even in a scenario that is waived."
    )
    deferrable: bool = Field(
        JobClass.deferrable, description="Whether its jobs may be shifted to other hours."
    )
    hourly_profile: list[float] = Field(
        list(JobClass.hourly_profile),
        description=f"Arrivals by hour in relation to each other: {_HOURLY}.",
    )
    loss_per_job: float = Field(
        JobClass.loss_per_job, description="What a job costs that is left unserved, money."
    )
    tenant: str | None = Field(JobClass.tenant, description="Name of its tenant.")


class ScenarioPart(Part):
    """One way the future may go."""

    name: str = Field(description="Unique name.")
    probability: float = Field(description="Its probability; those of all scenarios sum to 1.")
    arrivals: dict[str, list[float]] = Field(
        description="For each job class its jobs per hour, one number a quarter."
    )
    spot_availability: list[float] = Field(
        list(Scenario.spot_availability),
        description="Fraction of each spot offer's most_hosts to be had, one number a quarter; "
        "empty: all.",
    )


class TighteningPart(Part):
    """More room for a class in a pool than the queueing formula asks for."""

    job_class: str = Field(description="Name of the class.")
    gpu_type: str = Field(description="GPU type of the pool.")
    site: str = Field(description="Site of the pool.")
    factor: float = Field(
        Tightening.factor,
        description="Multiplies the headroom, 1 or more; from 1e5 on the class is kept out.",
    )
    margin: float = Field(
        Tightening.margin,
        description="GPUs that the pool keeps beyond the room for its load while jobs of the class "
        "are sent there.",
    )
    spot: bool = Field(Tightening.spot, description="Whether the pool's spot hosts are meant.")


class PlanningDocument(Document):
    """A planning problem of alloc: what can be had, what must be served, within which limits."""

    kind: Literal["planning"] = Field(description="What the document holds.")
    name: str = Field(description="Name for people.")
    currency: str = Field(description='Currency of all money, for example "EUR".')
    num_quarters: Whole = Field(description="Quarters planned.")
    offers: list[HostOfferPart] = Field(description="Hosts that can be had, at least one.")
    sites: list[SitePart] = Field(description="Where they can stand, at least one.")
    classes: list[JobClassPart] = Field(description="Classes of jobs, at least one.")
    scenarios: list[ScenarioPart] = Field(description="How the future may go, at least one.")
    owned: list[OwnedPart] = Field([], description="Hosts in service when the plan begins.")
    quarter_hours: float = Field(PlanningProblem.quarter_hours, description="Hours in a quarter.")
    budget: float | None = Field(
        PlanningProblem.budget,
        description="Most money over all quarters, not discounted, running costs as expected; null "
        "without limit.",
    )
    quarter_budgets: list[float] = Field(
        list(PlanningProblem.quarter_budgets),
        description="The same for each quarter; empty without limit.",
    )
    discount_rate: float = Field(
        PlanningProblem.discount_rate, description="Rate per quarter at which money is discounted."
    )
    carbon_price_per_kg: float = Field(
        PlanningProblem.carbon_price_per_kg, description="Money per kg of carbon dioxide."
    )
    carbon_caps_kg: list[float] = Field(
        list(PlanningProblem.carbon_caps_kg),
        description="Most carbon dioxide in each quarter, kg; empty without limit.",
    )
    failures: Whole = Field(
        PlanningProblem.failures, description="Hosts that any pool can lose and still serve."
    )
    epsilon: float = Field(
        PlanningProblem.epsilon, description="Largest probability of scenarios that are waived."
    )
    bands: Whole = Field(
        PlanningProblem.bands, description="Most groups into which the hours of a week are put."
    )
    utilisation: float = Field(
        PlanningProblem.utilisation, description="Most load of a pool, as a fraction."
    )
    pool_gpus: float | None = Field(
        PlanningProblem.pool_gpus,
        description="GPUs a pool is taken to have in the queueing formula; null: from the load.",
    )
    tightening: list[TighteningPart] = Field(
        [], description="Where more room is kept than the formula asks for."
    )
    description: dict[str, str] = Field(
        {}, description="Where the problem comes from; not part of the problem."
    )


class OrderPart(Part):
    """Hosts bought or reserved."""

    offer: str = Field(description="Name of the offer.")
    site: str = Field(description="Name of the site.")
    quarter: Whole = Field(description="Quarter of the order, counted from 0.")
    count: Whole = Field(description="Number of hosts, 1 or more.")


class RentalPart(Part):
    """Hosts rented by the hour in a band of hours."""

    scenario: str = Field(description="Name of the scenario.")
    quarter: Whole = Field(description="Quarter, counted from 0.")
    band: Whole = Field(description="Band of hours, counted from 0.")
    offer: str = Field(description="Name of the offer.")
    site: str = Field(description="Name of the site.")
    hosts: float = Field(description="Mean number of hosts.")


class SharePart(Part):
    """Jobs of a class that run in one way at one site."""

    scenario: str = Field(description="Name of the scenario.")
    quarter: Whole = Field(description="Quarter, counted from 0.")
    band: Whole = Field(description="Band of hours, counted from 0.")
    job_class: str = Field(description="Name of the class.")
    option: Whole = Field(description="Position in the class's options, counted from 0.")
    site: str = Field(description="Name of the site.")
    spot: bool = Field(description="Whether on spot hosts.")
    jobs_per_hour: float = Field(description="Rate, mean over the hours of the band.")


class UnservedPart(Part):
    """Jobs that a waived scenario leaves unserved."""

    scenario: str = Field(description="Name of the scenario.")
    quarter: Whole = Field(description="Quarter, counted from 0.")
    band: Whole | None = Field(description="Band of hours; null for a deferrable class.")
    job_class: str = Field(description="Name of the class.")
    jobs_per_hour: float = Field(description="Rate, mean over the hours of the band or quarter.")


class PlanPart(Part):
    """A plan: one set of orders, and for every scenario how the work is served."""

    orders: list[OrderPart] = Field(description="What is bought and reserved.")
    waived: list[str] = Field([], description="Names of the scenarios that are waived.")
    rentals: list[RentalPart] = Field([], description="Hosts rented by the hour.")
    shares: list[SharePart] = Field([], description="Where and how the jobs run.")
    unserved: list[UnservedPart] = Field([], description="Jobs not served.")


class PlanDocument(Document, PlanPart):
    """A plan of alloc."""

    kind: Literal["plan"] = Field(description="What the document holds.")


class CostBreakdownPart(Part):
    """Expected money by what it is spent on; an income is negative."""

    purchase: float = Field(CostBreakdown.purchase, description="Hosts bought.")
    reserved: float = Field(CostBreakdown.reserved, description="Hosts reserved.")
    maintenance: float = Field(CostBreakdown.maintenance, description="Maintenance.")
    on_demand: float = Field(CostBreakdown.on_demand, description="Hosts rented on demand.")
    spot: float = Field(CostBreakdown.spot, description="Spot hosts.")
    energy: float = Field(CostBreakdown.energy, description="Energy with cooling.")
    carbon: float = Field(CostBreakdown.carbon, description="The carbon price on the energy.")
    residual: float = Field(CostBreakdown.residual, description="Worth at the end, 0 or less.")
    loss: float = Field(CostBreakdown.loss, description="Jobs left unserved.")


class MarginalValuePart(Part):
    """What one more unit of something would save, in the relaxation."""

    kind: str = Field(description="What there would be more of.")
    name: str = Field(description="Site, offer or class.")
    quarter: Whole | None = Field(description="Quarter; null: all together.")
    unit: str = Field(description="Unit of which there would be one more.")
    saving: float | None = Field(
        description="Expected discounted money saved, negative if it costs; null: no plan has one "
        "more. An estimate unless lower and upper are equal to it."
    )
    lower: float | None = Field(
        MarginalValue.lower, description="Proved to be saved at least; null: nothing is proved."
    )
    upper: float | None = Field(
        MarginalValue.upper, description="Proved to be saved at most; null: nothing is proved."
    )


class ReliefPart(Part):
    """One limit of an infeasible problem that is given way."""

    kind: str = Field(description="Kind of limit.")
    name: str = Field(description="Class, site or offer.")
    scenario: str | None = Field(description="Scenario; null: all.")
    quarter: Whole | None = Field(description="Quarter; null: all together.")
    amount: float = Field(description="How much is missing.")
    unit: str = Field(description="Unit of the amount.")
    sentence: str = Field(description="The same for people.")
    way: Whole = Field(
        Relief.way,
        description="Number of the way out that it belongs to; all reliefs of a way are needed "
        "together, one way is enough.",
    )
    least: bool = Field(Relief.least, description="Whether less is proved not to be enough.")


class PlanResultDocument(Document):
    """A result of capacity planning: a plan with its certificate."""

    kind: Literal["plan_result"] = Field(description="What the document holds.")
    plan: PlanPart | None = Field(description="The best plan found, or null.")
    certificate: CertificatePart = Field(description="What is proved about it.")
    costs: CostBreakdownPart | None = Field(
        None, description="What the expected discounted cost is made of."
    )
    assumptions: list[str] = Field([], description="What the plan takes for granted.")
    marginals: list[MarginalValuePart] = Field([], description="What one more unit would save.")
    conflict: str | None = Field(
        PlanResult.conflict, description="For an infeasible problem, what is missing."
    )
    reliefs: list[ReliefPart] = Field([], description="The limits that may give way, see way.")
    log: list[str] = Field([], description="What the method reports, one line a step.")
