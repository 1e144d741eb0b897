"""``alloc audit-reward``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, progress, show
from alloc.cli.door import say
from alloc.cli.sources import read_instance

if TYPE_CHECKING:
    from alloc.cli.sheets import Sheet
    from alloc.learning.reward_audit import Audit, AuditRow
    from alloc.problems.allocation.instance import Instance

_NAMES = ("progress", "discounted-progress", "completions", "jobs-in-system", "weighted-jct")


def _policy_option(text: str) -> Any:
    """Return an option that takes a policy."""
    return typer.Option(
        metavar="POLICY",
        help=text,
        autocompletion=completion.complete_scheduler,
        show_default=False,
    )


def audit_reward_command(
    reward: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="progress (each slot by itself), discounted-progress, completions, "
            "jobs-in-system or weighted-jct.",
            autocompletion=lambda: list(_NAMES),
        ),
    ] = "progress",
    gamma: Annotated[
        float | None,
        typer.Option(
            metavar="DISCOUNT",
            help="Discount of a slot: 0 each slot by itself, 1 none; by default the reward's own.",
            show_default=False,
        ),
    ] = None,
    instances: Annotated[
        list[str] | None,
        typer.Option(
            "--instances",
            metavar="INSTANCE",
            help="A small instance in slots, a file or a stored id; may be repeated. By default "
            "drawn ones.",
            autocompletion=completion.complete_instance,
            show_default=False,
        ),
    ] = None,
    num_instances: Annotated[
        int,
        typer.Option(
            metavar="N", help="Instances that are drawn where none is given.", min=1, max=1000
        ),
    ] = 6,
    agent: Annotated[
        str | None,
        _policy_option("The agent trained on the reward, by name or file."),
    ] = None,
    imitation: Annotated[
        str | None,
        _policy_option(
            "The same network trained to imitate the maximiser: tells network from training."
        ),
    ] = None,
    teacher: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"{options.TEACHER} The agent was trained to do so first.",
            autocompletion=completion.complete_scheduler,
        ),
    ] = "drf",
    ties: Annotated[
        bool,
        typer.Option("--ties", help="Also break ties among maximisers for and against mean JCT."),
    ] = False,
    time_limit: options.TimeLimitOption = 20.0,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Solve an agent's reward exactly and say what maximising it would do to mean JCT.

    On small instances the clairvoyant optimum of mean JCT, the exact maximiser of the reward, the
    exact optimum of each round, the agent and its teacher stand side by side, all run by the same
    simulator; the last line says whether reward, network or training is to blame for the gap.
    """
    from alloc.learning.reward_audit import audit_reward, audited_reward

    wanted = audited_reward(reward, gamma)
    problems = [read_instance(name) for name in instances or ()] or _drawn(num_instances, seed)
    with progress(f"auditing {wanted.name}", quiet) as line:
        audit = audit_reward(
            problems,
            wanted,
            agent=agent,
            imitation=imitation,
            teacher=teacher,
            ties=ties,
            time_limit_s=time_limit,
            seed=seed,
            report=line,
        )
    if json:
        print_json(as_document(audit))
        return
    show(_table(audit))
    for note in audit.notes:
        say(note)
    show(audit.verdict)


def _drawn(count: int, seed: int) -> "list[Instance]":
    from alloc.instances.learning_worlds import AUDIT, HELD_OUT_SEEDS

    return [AUDIT.make(HELD_OUT_SEEDS[0] + 1000 * seed + k) for k in range(count)]


def as_document(audit: "Audit") -> dict[str, Any]:
    """Return an audit as plain JSON values."""
    return {
        "reward": audit.reward.name,
        "gamma": audit.reward.gamma,
        "text": audit.reward.text,
        "instances": list(audit.instances),
        "constant": audit.constant,
        "rows": [
            {
                "role": row.role,
                "who": row.label,
                "mean_jct_slots": list(row.mean_jct),
                "gap_percent": list(row.gap),
                "return": list(row.value),
                "proved": row.proved,
                **_interval(row),
            }
            for row in audit.rows
        ],
        "blame": audit.blame,
        "verdict": audit.verdict,
        "notes": list(audit.notes),
    }


def _interval(row: "AuditRow") -> dict[str, float | None]:
    from alloc.comparison import mean_interval

    gap = mean_interval(row.gap)
    return {"mean_gap_percent": gap.mean, "gap_low": gap.low, "gap_high": gap.high}


def _table(audit: "Audit") -> "Sheet":
    from statistics import mean

    from alloc.cli.tables import table

    count = len(audit.instances)
    rows = []
    for row in audit.rows:
        gap = _interval(row)
        low, high = gap["gap_low"], gap["gap_high"]
        rows.append(
            [
                row.role,
                row.label,
                mean(row.mean_jct),
                f"{gap['mean_gap_percent']:+.1f} %",
                "–" if low is None or high is None else f"{low:+.1f} to {high:+.1f} %",
                mean(row.value),
                "–" if row.proved is None else f"{row.proved} of {count}",
            ]
        )
    return table(
        ["row", "who", "mean JCT, slots", "gap to the bound", "95 %", "return", "proved"],
        rows,
        title=f"{audit.reward.text}, {count} instance{'s' if count > 1 else ''}",
    )
