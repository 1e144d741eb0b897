"""Documents: the answers of the server, as pydantic models for the OpenAPI description."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alloc.documents.typed import ResultDocument
from alloc.server.records import State


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid")


class ProblemField(Answer):
    """What is wrong with one field."""

    pointer: str | None = Field(None, description="JSON pointer from the root of the body.")
    parameter: str | None = Field(None, description="Name of the parameter or header.")
    detail: str = Field(description="What is wrong with it.")


class ProblemDocument(BaseModel):
    """A problem (RFC 9457): why the server does not do what was asked."""

    type: str = Field(description="Stable URI of the kind of problem: urn:alloc:problem:...")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="What is wrong and the cure, one sentence.")
    instance: str | None = Field(None, description="What it is about.")
    errors: list[ProblemField] = Field([], description="The fields that are wrong.")
    request_id: str | None = Field(None, description="Id of the request in the server's log.")


class JobLinks(Answer):
    """Where to go from a job."""

    self: str = Field(description="The job.")
    request: str = Field(description="The body that it was asked for with.")
    result: str = Field(description="Its result.")
    events: str = Field(description="Its events, as server-sent events.")
    cancel: str = Field(description="POST here cancels it.")


class JobDocument(Answer):
    """A job: a request that was accepted, and what became of it."""

    schema_version: Literal[1]
    kind: Literal["job"]
    id: str = Field(description="Unique; sorts by time of creation.")
    operation: str = Field(description="What was asked for.")
    state: State = Field(description="expired: it ended, and its result is no longer kept.")
    label: str | None = Field(description="The client's own name for it.")
    client: str = Field(description="Whose it is.")
    attempt: int = Field(description="How often it was started.")
    created_at: str = Field(description="RFC 3339, UTC.")
    started_at: str | None = Field(description="RFC 3339, UTC; of the last attempt.")
    finished_at: str | None = Field(description="RFC 3339, UTC.")
    expires_at: str | None = Field(description="When the result goes; RFC 3339, UTC.")
    progress: str | None = Field(description="The last line about how far it is.")
    problem: ProblemDocument | None = Field(description="Why it failed.")
    links: JobLinks


class JobList(Answer):
    """Jobs, the latest first."""

    schema_version: Literal[1]
    kind: Literal["jobs"]
    jobs: list[JobDocument]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page.")


class PlacementDocument(Answer):
    """A placement: the result, and what was wrong before it."""

    schema_version: Literal[1]
    kind: Literal["placement"]
    result: ResultDocument
    broken: list[str] = Field(description="Rules that running jobs broke from the start.")
    repaired: bool = Field(description="Whether the placement removes them.")


class RelaxationPart(Answer):
    """What would let a job start."""

    requirement: str = Field(description="The requirement that is relaxed.")
    cost: float = Field(description="How much is given up, in `unit`.")
    sentence: str = Field(description="What to do.")
    unit: str = Field("GPUs", description="GPUs, or tasks for a job without GPUs.")


class ExplanationPart(Answer):
    """Whether a job starts, and why not."""

    starts: bool
    job: str | None = None
    conflict: list[str] | None = Field(None, description="Requirements that conflict.")
    sentence: str | None = Field(None, description="The reason.")
    relaxations: list[RelaxationPart] | None = Field(None, description="The cheapest first.")


class ExplanationsDocument(Answer):
    """Explanations by job."""

    schema_version: Literal[1]
    kind: Literal["explanations"]
    jobs: dict[str, ExplanationPart]


class ComparisonDocument(BaseModel):
    """A comparison: schedulers against the certified bound."""

    schema_version: Literal[1]
    kind: Literal["comparison"]
    rows: list[dict[str, Any]] = Field(description="A row an instance, scheduler and seed.")


class HealthDocument(Answer):
    """Whether the server lives, or takes work."""

    status: Literal["ok"]
