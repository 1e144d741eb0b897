"""Wrong schedulers, problems, plans and options."""

from __future__ import annotations

from wrong_inputs import EXAMPLES, RULE, case

# Schedulers.
RUN = "simulate elastic-tiny/01 --scheduler"


def rule(name: str, text: str, says: str, place: str = "wrong.py:rule", code: int = 2) -> None:
    """Add a scheduler of one's own."""
    case(f"scheduler: {name}", f"{RUN} {place}", says, code=code, wrong__py=text)


case(
    "scheduler: unknown",
    f"{RUN} fiffo",
    'unknown scheduler "fiffo"; did you mean "fifo"? Known: fifo,',
)
case(
    "scheduler: options of another", f"{RUN} fifo(bogus=1)", 'scheduler fifo has no option "bogus"'
)
case(
    "scheduler: an open parenthesis",
    "compare elastic-tiny/01 --schedulers fifo(",
    'unknown scheduler "fifo("; did you mean "fifo"? Known: fifo,',
)
case(
    "scheduler: none",
    "compare elastic-tiny/01 --schedulers ,",
    "comparison: no schedulers; give at least one.",
)
case(
    "scheduler: twice",
    "compare elastic-tiny/01 --schedulers fifo,fifo",
    'comparison: scheduler "fifo" is given twice',
)
case("scheduler: no such file", f"{RUN} ./none.py:rule", "none.py: there is no such file")
case(
    "scheduler: no such module",
    f"{RUN} no_such_module_here:Rule",
    '"no_such_module_here": there is no module "no_such_module_here" here or',
)
case("scheduler: no such policy", f"{RUN} none.onnx", "none.onnx: there is no such file")
case(
    "scheduler: a policy that is text",
    f"{RUN} wrong.onnx",
    "wrong.onnx: is not a whole ONNX file",
    wrong__onnx="hello",
)
case(
    "scheduler: an agent that is text",
    f"{RUN} wrong.zip",
    "wrong.zip: is no agent that Stable-Baselines3 saved",
    wrong__zip="hello",
)
rule(
    "no such name",
    RULE,
    'wrong.py: has no "rul"; did you mean "rule"? it has rule.',
    "wrong.py:rul",
)
rule(
    "a slip of Python",
    "def rule(state:\n",
    "wrong.py: cannot be imported, SyntaxError: '(' was never closed (line 1)",
)
rule(
    "fails when it is read",
    "1/0\n",
    "wrong.py: cannot be imported, ZeroDivisionError: division by zero",
)
rule("no function", "rule = 5\n", "wrong.py:rule: is int, and no scheduler")
rule(
    "takes too much",
    "def rule(a, b, c):\n    return ()\n",
    "wrong.py:rule: requires 3 parameters (a, b, c), and a rule is called with",
)
rule(
    "gives nonsense",
    "def rule(state):\n    return 5\n",
    "scheduler rule: its function returned 5",
    code=1,
)
rule(
    "fails at work",
    "def rule(state):\n    raise KeyError('x')\n",
    "scheduler rule fails at 0 s, KeyError: 'x' (wrong.py, line 2, in rule)",
    code=1,
)


# Problems, plans and options.
case(
    "plan: no such problem",
    "plan planning-tny",
    '"planning-tny": is neither a file nor the id of a stored planning problem',
)
case(
    "plan: an instance",
    "plan queue.json",
    "queue.json: this is an instance, and a planning problem was expected",
)
case(
    "plan: YAML with a slip",
    "plan wrong.yaml",
    "wrong.yaml: the planning document, line 2: is not YAML (mapping values are",
    wrong__yaml="kind: planning\n offers: [\n",
)
case(
    "plan: a field that is not",
    "plan wrong.yaml",
    'wrong.yaml: the planning: unknown field "ofers"',
    wrong__yaml="kind: planning\nschema_version: 1\nofers: []\n",
)
case(
    "plan: held out jobs without a replay",
    "plan planning-tiny --held-out queue.json",
    "Invalid value: --held-out queue.json holds jobs, and they can only be",
)
case(
    "plan: held out that is not",
    "plan planning-tiny --held-out none.json",
    "none.json: there is no such file",
)
case(
    "plan: iterations without a replay",
    "plan planning-tiny --iterations 3",
    "Invalid value: --iterations needs --replay: without it nothing is simulated",
)
case(
    "plan: a front of nothing",
    "plan planning-tiny --pareto beauty",
    'pareto: unknown axis "beauty"',
)
case(
    "plan: workers without a pool",
    "plan planning-tiny --parallel dask",
    "--parallel dask needs workers: add --workers 2 or more.",
)
case("what-if: no change", "what-if planning-tiny", "what if: nothing is changed")
case(
    "what-if: unknown change",
    "what-if planning-tiny demnd=+20%",
    'change "demnd=+20%": unknown kind "demnd"',
)
case(
    "what-if: no relation",
    "what-if planning-tiny demand=20",
    'change "demand=20": "20" does not say in relation to what',
)
case(
    "what-if: unknown offer", "what-if planning-tiny without:dgx9", 'what if: unknown offer "dgx9"'
)
case(
    "what-if: a change of a cluster",
    "what-if planning-tiny cordon:rack-0",
    'change "cordon:rack-0": is of a cluster, and this is a planning problem',
)
case(
    "what-if: another family",
    "what-if inference.json demand=+20%",
    "inference.json: is an inference problem",
)
case(
    "solve: no such instance",
    "solve elastic-tny/01",
    '"elastic-tny/01": is neither a file nor the id of a stored instance',
)
case(
    "solve: no such objective",
    "solve elastic-tiny/01 --objective makespn",
    'goal: unknown objective "makespn"',
)
case(
    "solve: a time that is no number",
    "solve elastic-tiny/01 --time-limit 1m",
    "--time-limit needs a number alone, without a unit or %",
)
case(
    "solve: no time",
    "solve elastic-tiny/01 --time-limit 0",
    "Invalid value for '--time-limit': Input should be greater than or equal to",
)
case(
    "solve: a gap in percent",
    "solve elastic-tiny/01 --gap 1%",
    "--gap needs a number alone, without a unit or %",
)
case(
    "solve: a gap below zero",
    "solve elastic-tiny/01 --gap -0.1",
    "Invalid value for '--gap': Input should be greater than or equal to 0",
)
case(
    "solve: half a seed",
    "solve elastic-tiny/01 --seed 0.5",
    "--seed needs a whole number alone, without a unit or %",
)
case(
    "solve: no such backend",
    "solve elastic-tiny/01 --backend gurob",
    'unknown backend "gurob". Known: auto, highs, pyomo, cpsat.',
)
case(
    "solve: no such formulation",
    "solve elastic-tiny/01 --formulation placment",
    'unknown family "placment"; did you mean "placement"? Known: round,',
)
case("solve: nothing", "solve", "Missing argument 'PROBLEM'")
case(
    "solve: an option that is not",
    "solve elastic-tiny/01 --tme-limit 5",
    "No such option: --tme-limit (Possible options: --memory-limit,",
)
case(
    "solve: JSON cut short",
    "solve wrong.json",
    "wrong.json: the document ends too early, at line 8, column 258",
    wrong__json=(EXAMPLES / "queue.json").read_text()[:400],
)
case(
    "solve: nowhere to write",
    "solve elastic-tiny/01 -o none/out.json",
    "none/out.json: cannot be written: there is no folder none",
)
case("place: no such job", "explain queue.json trian", 'instance "queue" has no job "trian"')
case(
    "place: a place that is not",
    "defrag queue.json --empty rack-99",
    'topology "topology" has no host or domain "rack-99"',
)
case(
    "place: two questions",
    "defrag queue.json --for train --empty rack-0",
    "Invalid value: give --for or --empty, not both",
)
case(
    "verify: no answer",
    "verify queue.json jobs.csv",
    "jobs.csv is not valid JSON: expecting value at line 1, column 1",
)
case(
    "verify: a problem for an answer",
    "verify queue.json queue.json",
    "queue.json: is not an answer",
)
case("bench: no such family", "bench placement-tny", 'the library has no "placement-tny"')
case(
    "bench: no such method",
    "bench quotas-tiny --methods hihgs",
    '--methods: there is no method "hihgs"',
)
case(
    "bench: who cannot answer",
    "bench gangs-small --methods highs",
    "none of highs answers problems of malleable in continuous time",
)
case("bench: a submission of nothing", "bench submit none.json", "none.json: there is no such file")
case(
    "bench: a submission that is a problem",
    "bench submit queue.json",
    "queue.json: is not an answer",
)
case(
    "command: unknown",
    "sove elastic-tiny/01",
    "No such command 'sove'. Did you mean 'solve', 'serve'? See `alloc --help`.",
)
