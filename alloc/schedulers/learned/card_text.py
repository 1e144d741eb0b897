"""The model card for people: facts in order, and a page of Markdown."""

from __future__ import annotations

from alloc.schedulers.learned.policy_file import PolicyFile


def card_facts(policy: PolicyFile) -> list[tuple[str, str]]:
    """Return what there is to know about a policy, name and text, in reading order."""
    card, spec = policy.card, policy.spec
    parameters = ", ".join(f"{name} {value}" for name, value in spec.parameters.items())
    facts = [
        ("what it is", card.title),
        ("information", card.information),
        ("kind", spec.kind),
        ("parameters", parameters or "none"),
        ("input", ", ".join(f"{tensor.name} {tensor.text}" for tensor in spec.inputs)),
        ("output", ", ".join(f"{tensor.name} {tensor.text}" for tensor in spec.outputs)),
        ("format", f"ONNX, opset {policy.document.opset}, {len(policy.model) / 1000:,.1f} kB"),
        ("data", card.data),
        ("seeds", ", ".join(map(str, card.seeds)) or "none"),
        ("command", card.command),
        ("training", f"{card.training_hours:g} hours, {card.date.isoformat()}"),
        ("validation", _curve(policy)),
        ("versions", ", ".join(f"{k} {v}" for k, v in card.versions.items()) or "not stated"),
        ("written by", f"alloc {card.alloc_version}"),
        ("licence", card.licence),
    ]
    facts += [("known limit", limit) for limit in card.limits]
    facts += [("reference", reference) for reference in card.references]
    return [*facts, ("SHA-256", policy.sha256)]


def _curve(policy: PolicyFile) -> str:
    card = policy.card
    if not card.curve:
        return "no curve"
    lowest = min(card.curve, key=lambda point: point.value)
    last = card.curve[-1]
    return (
        f"{card.curve_value}: lowest {lowest.value:,.6g} at {card.curve_step} {lowest.step:,.6g}, "
        f"last {last.value:,.6g} at {last.step:,.6g} ({len(card.curve)} points)"
    )


def card_markdown(policy: PolicyFile) -> str:
    """Return the model card as a page of Markdown."""
    card = policy.card
    limits = [f"- {limit}" for limit in card.limits] or ["None is stated."]
    references = [f"- {reference}" for reference in card.references]
    shown = [
        (name, text)
        for name, text in card_facts(policy)
        if name not in ("what it is", "known limit", "reference", "command")
    ]
    lines = [
        f"# {card.name}",
        "",
        card.title,
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(text)} |" for name, text in shown),
        "",
        "## Training it again",
        "",
        *(f"    {line}" for line in card.command.splitlines()),
        "",
        "## Known limits",
        "",
        *limits,
    ]
    if card.curve:
        lines += [
            "",
            "## Validation curve",
            "",
            f"| {_cell(card.curve_step)} | {_cell(card.curve_value)} |",
            "|---:|---:|",
            *(f"| {point.step:,.6g} | {point.value:,.6g} |" for point in card.curve),
        ]
    if references:
        lines += ["", "## References", "", *references]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
