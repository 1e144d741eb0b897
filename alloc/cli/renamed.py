"""Options that had another name: the old one is refused with the new one."""

RENAMED = {
    ("solve", "--family"): "--formulation",
    ("solve", "--method"): "--backend",
    ("topology show", "-f"): "--format",
    ("topology convert", "-f"): "--format",
    ("ranks", "-f"): "--format",
    ("place", "--goal"): "--objective",
    ("compare", "--jobs"): "--workers",
    ("demo", "--output"): "--report FILE.html",
    ("demo", "-o"): "--report FILE.html",
    ("instances generate", "--jobs"): "--num-jobs",
    ("instances generate", "--hosts"): "--num-hosts",
    ("audit-reward", "--seeds"): "--num-instances",
    ("forecast", "--held-out"): "--held-out-output",
}
"""By command and old name, what to write: an option has one meaning in all commands."""
