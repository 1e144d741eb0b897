"""``alloc bench``: solvers and schedulers over the library of instances."""

import csv
import datetime
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from alloc.cli import completion, options
from alloc.cli.console import print_json, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode
from alloc.cli.sources import read_answer, solution_of
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.certificate import Certificate
    from alloc.comparison.benchmarking import Outcome
    from alloc.instances.best_known import BestKnown
    from alloc.instances.catalogue import Entry


class _RunByDefault(TyperGroup):
    """The commands of ``alloc bench``; what is none of them is a name of the library."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` before what names no command."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["run", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=_RunByDefault,
    help="Run solvers and schedulers over the library: `alloc bench placement-tiny`.",
    no_args_is_help=True,
)

BestKnownOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Best known values of your own, beside those that come with alloc; by default "
        "best-known.json in the user's data folder.",
        show_default=False,
    ),
]


@app.command("run")
def run_command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Kinds of problems (placement), families (placement-rails), ids "
            "(placement-rails/01), or all.",
            autocompletion=completion.complete_library,
            show_default=False,
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME...",
            help="Methods and general solvers (auto, highs, cpsat, pyomo); by default auto, where "
            "no schedulers are named.",
            show_default=False,
        ),
    ] = None,
    schedulers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME...",
            help=f"{options.SCHEDULERS} On schedules and placements.",
            autocompletion=completion.complete_scheduler_list,
            show_default=False,
        ),
    ] = None,
    seeds: options.SeedsOption = 1,
    time_limit: options.TimeLimitOption = 10.0,
    gap: options.GapOption = options.GAP,
    workers: Annotated[
        int,
        typer.Option(metavar="N", help=f"{options.WORKERS} -1 for all there are.", min=-1),
    ] = 1,
    store: options.StoreOption = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Keep better values and bounds in --best-known."),
    ] = False,
    best_known: BestKnownOption = None,
    csv_output: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write the rows as CSV.", show_default=False),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the performance profiles as CSV.", show_default=False
        ),
    ] = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Run methods and schedulers over instances, beside the best known values.

    Every answer is checked. A row says how far it is behind the best known value, and whether it is
    better than the table or worse than the same solver has shown. Exit code 5 with a regression, 1
    if a run failed or answers contradict the table or each other.
    """
    require_writable(csv_output)
    require_writable(profile)
    from alloc.comparison.benchmarking import Contender, Outcome, bench, chosen_entries, learned
    from alloc.errors import CertificateError
    from alloc.instances import manifest
    from alloc.result import Limits

    known = _own(best_known)
    entries = [known.over(entry) for entry in chosen_entries(names, manifest(None))]
    wanted = methods if methods is not None or schedulers is not None else "auto"
    contenders = [Contender(name) for name in _split(wanted)]
    contenders += [Contender(name, is_scheduler=True) for name in _split(schedulers)]
    _require_known(contenders)

    with progress("running", quiet) as line:

        def tell(done: int, total: int, outcome: Outcome) -> None:
            line(f"{done}/{total}  {outcome.run.label}: {outcome.error or outcome.note or 'done'}")

        try:
            outcomes = bench(
                entries,
                contenders,
                limits=Limits(time_limit, gap),
                seeds=range(seeds),
                store=store,
                jobs=workers,
                progress=tell,
            )
        except KeyboardInterrupt:
            kept = "nothing is kept; --store FILE keeps each run as it is done"
            if store is not None:
                kept = f"finished runs are in {store}; the same command goes on"
            say(f"interrupted: {kept}.")
            raise
    rows = [_row(outcome) for outcome in outcomes]
    found = _profiles(outcomes)
    if csv_output is not None:
        save(lambda path: Path(path).write_text(_csv(rows)), csv_output)
    if profile is not None:
        steps = [
            {"measure": measure, "contender": p.contender, "factor": factor, "share": share}
            for measure, curves in found.items()
            for p in curves
            for factor, share in p.steps()
        ]
        save(lambda path: Path(path).write_text(_csv(steps)), profile)
    if json:
        print_json(rows)
    else:
        _show(rows, found)
    better, contradictions = learned(outcomes, datetime.datetime.now(datetime.UTC).date())
    if record:
        _record(better, best_known)
    if contradictions:
        raise CertificateError(" ".join(contradictions.values()))
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in failed:
        say(f"failed: {outcome.run.label}: {outcome.error}")
    if failed:
        return ExitCode.UNEXPECTED
    return ExitCode.MISSED if any(o.note == "regression" for o in outcomes) else ExitCode.SOLVED


def _split(names: str | None) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in (names or "").split(",") if name.strip()))


def _require_known(contenders: list[Any]) -> None:
    from alloc.backends import BACKENDS
    from alloc.errors import nearest
    from alloc.families import FAMILIES
    from alloc.schedulers import make_scheduler

    known = dict.fromkeys([*BACKENDS, *(m for f in FAMILIES.values() for m in f.methods)])
    for contender in contenders:
        if contender.is_scheduler:
            make_scheduler(contender.name)  # refused here, before work begins
        elif contender.name not in known:
            raise InstanceError(
                f'--methods: there is no method "{contender.name}"'
                f"{nearest(contender.name, known, '.')} Known: {', '.join(known)}."
            )


def _own(path: Path | None) -> "BestKnown":
    from alloc.instances.best_known import BestKnown, best_known_path, read_best_known

    place = path or best_known_path()
    return read_best_known(place) if place.exists() else BestKnown()


def _record(better: "dict[str, Entry]", path: Path | None) -> None:
    """Keep what is better, and say where."""
    from alloc.instances.best_known import best_known_path, write_best_known

    if not better:
        say("nothing is better than what is known.")
        return
    from alloc.instances import entry as shipped

    known = _own(path)  # again: somebody may have kept something since
    for entry in better.values():
        known = known.with_known(known.over(entry), shipped(entry.id))
    place = path or best_known_path()
    write_best_known(known, place)
    say(f"{place}: better now: {', '.join(better)}.")


def _row(outcome: "Outcome") -> dict[str, Any]:
    run, made = outcome.run, outcome.certificate
    known = run.entry
    return {
        "instance": known.id,
        "objective": known.objective,
        "unit": known.unit,
        "contender": run.contender.name,
        "seed": run.limits.seed,
        "status": "failed" if made is None else made.status,
        "value": outcome.value,
        # Of a scheduler, and where nothing is proved, there is none.
        "bound": None if made is None or abs(made.bound) == float("inf") else made.bound,
        "seconds": None if made is None else round(made.seconds, 3),
        "best_value": known.best and known.best.value,
        "best_bound": known.bound and known.bound.value,
        "behind": outcome.behind,
        "note": outcome.error or outcome.note,
    }


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else ["measure"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _profiles(outcomes: "list[Outcome]") -> dict[str, Any]:
    """Return the profiles of values, and of the seconds of those who prove them."""
    from alloc.comparison.profiles import profiles

    values: dict[str, dict[Any, float | None]] = {}
    seconds: dict[str, dict[Any, float | None]] = {}
    for outcome in outcomes:
        run, value = outcome.run, outcome.value
        place = (run.entry.id, run.limits.seed)
        cost = value
        if value is not None and run.entry.sense == "max":
            cost = 1 / value if value > 0 else None
        values.setdefault(run.contender.name, {})[place] = cost
        if not run.contender.is_scheduler:
            spent = outcome.certificate.seconds if outcome.certificate and outcome.solved else None
            seconds.setdefault(run.contender.name, {})[place] = spent
    found = {}
    for measure, costs in (("value", values), ("seconds", seconds)):
        # Only on what all of them take can they be compared.
        shared = set.intersection(*(set(row) for row in costs.values())) if costs else set()
        if len(costs) > 1 and shared:
            order = sorted(shared)
            found[measure] = profiles({n: [row[p] for p in order] for n, row in costs.items()})
    return found


def _show(rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    from alloc.cli.tables import percent, table
    from alloc.comparison.profiles import FACTORS

    several = len({row["seed"] for row in rows}) > 1
    columns = ["instance", "contender", "status", "value", "bound", "best known", "behind", "s", ""]
    cells = []
    for row in rows:
        name = f"{row['contender']}, seed {row['seed']}" if several else row["contender"]
        parts = (row["value"], row["bound"], row["best_value"], percent(row["behind"]))
        cells.append((row["instance"], name, row["status"], *parts, row["seconds"], row["note"]))
    show(table(columns, cells))
    titles = {
        "value": "Performance profile of values: share of instances within a factor of the best",
        "seconds": "Performance profile of seconds to the proof, within a factor of the fastest",
    }
    for measure, curves in found.items():
        lines = [(p.contender, *(percent(p.share(f)) for f in FACTORS)) for p in curves]
        show(table(("contender", *(f"{f:g}" for f in FACTORS)), lines, titles[measure]))


@app.command("submit")
def submit_command(
    answer: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT",
            help="A result or a solution of an instance of the library.",
            show_default=False,
        ),
    ],
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The instance; a result says it by its fingerprint.",
            autocompletion=completion.complete_library,
            show_default=False,
        ),
    ] = None,
    who: Annotated[str, typer.Option(metavar="NAME", help="Whose answer it is.")] = "submitted",
    best_known: BestKnownOption = None,
) -> ExitCode:
    """Check an answer to an instance of the library, and keep it if it is the best known.

    The checker recomputes every rule and the value. A bound is not taken over: it cannot be checked
    without the proof. Exit code: 0 if it is feasible, 3 if it breaks a rule or claims too much.
    """
    given = read_answer(answer)
    from alloc.certificate import Certificate
    from alloc.families import FAMILIES
    from alloc.instances import load_problem
    from alloc.result import Result
    from alloc.verification import check_claims

    claimed = given.certificate if isinstance(given, Result) else None
    entry = _entry_of(claimed, instance, answer)
    problem, family = load_problem(entry.id), FAMILIES[entry.formulation]
    solution = solution_of(given, answer)
    violations = family.check(problem, solution)
    if claimed is not None and claimed.seconds < 0:
        raise InstanceError(
            f"{answer}: certificate: seconds is {claimed.seconds:g}; give the time that the solve "
            "took, 0 or more."
        )
    if isinstance(given, Result) and not violations:
        violations = check_claims(problem, given, family.measure_of)
    if violations:
        from alloc.cli.tables import table

        show(table(("rule", "violation"), [(v.code, v.sentence) for v in violations]))
        return ExitCode.INFEASIBLE
    value = float(family.measure_of(entry.objective).evaluate(problem, solution))
    known = _own(best_known)
    before = known.over(entry)
    checked = Certificate(
        status="feasible",
        objective=value,
        bound=float("-inf" if entry.sense == "min" else "inf"),
        sense=entry.sense,
        objective_name=entry.objective,
        formulation=entry.formulation,
        backend="unknown" if claimed is None else claimed.backend,
        backend_version="" if claimed is None else claimed.backend_version,
        seed=0 if claimed is None else claimed.seed,
        workers=1 if claimed is None else claimed.workers,
        seconds=0.0 if claimed is None else claimed.seconds,
        fingerprint=entry.fingerprint,
        verified=True,
        bound_proof="none",
    )
    after = before.improved(checked, datetime.datetime.now(datetime.UTC).date(), who)
    unit = f" {entry.unit}" if entry.unit else ""
    if after == before:
        best = "none" if before.best is None else f"{before.best.value:.10g}{unit}"
        show(f"feasible: {value:.10g}{unit}, no better than the best known value, {best}.")
        return ExitCode.SOLVED
    from alloc.instances.best_known import best_known_path, write_best_known

    place = best_known or best_known_path()
    write_best_known(known.with_known(after, entry), place)
    old = "none was known" if before.best is None else f"before: {before.best.value:.10g}{unit}"
    show(f"feasible: {value:.10g}{unit} is the best known value of {entry.id} ({old}).")
    say(f"{place}: written.")
    return ExitCode.SOLVED


def _entry_of(claimed: "Certificate | None", instance: str | None, path: Path) -> "Entry":
    """Return the instance that an answer is to; a solution alone does not say it."""
    from alloc.instances import entry, manifest

    if instance is not None:
        chosen = entry(instance)
        if claimed is not None and claimed.fingerprint != chosen.fingerprint:
            raise InstanceError(
                f"{path}: is an answer to another instance than {instance}; leave --instance out."
            )
        return chosen
    if claimed is None:
        raise InstanceError(
            f"{path}: is a solution, which does not say of what; name the --instance."
        )
    about = (claimed.fingerprint, claimed.formulation)
    for known in manifest(None):
        if (known.fingerprint, known.formulation) == about:
            return known
    raise InstanceError(
        f"{path}: is a result of {about[1]} on an instance with fingerprint {about[0][:12]}..., "
        "which the library does not have; `alloc instances list` lists its instances."
    )
