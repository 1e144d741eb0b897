"""Wrong histories and price sheets of `alloc plan init`."""

from __future__ import annotations

from wrong_inputs import PRICES, case

PLAN = "plan init history.csv --prices wrong.csv --speed a100=1 -o out.yaml"


def prices(name: str, text: str, says: str, more: str = "") -> None:
    """Add a price sheet."""
    case(f"prices: {name}", f"{PLAN} {more}".strip(), says, wrong__csv=text)


HEAD = "host,gpu_type,gpus,Purchase EUR,On-demand EUR per hour,life years,power kw\n"
prices(
    "two currencies",
    "host,gpu_type,gpus,Purchase EUR,On-demand USD per hour\n8x a100,a100,8,120000,14\n",
    'wrong.csv, line 2: the column "On-demand USD per hour" says USD, and line',
)
prices(
    "two currencies in the rows",
    "host,gpu_type,gpus,purchase\nx,a100,8,120000 EUR\ny,a100,8,130000 USD\n",
    'wrong.csv, line 3: "130000 USD" says USD, and line 2 EUR',
)
prices(
    "a currency that is none",
    "host,gpu_type,gpus,purchase\nx,a100,8,120000 BTC\n",
    'wrong.csv, line 2: purchase is "120000 BTC"',
)
prices("no price", "host,gpu_type,gpus\n8x a100,a100,8\n", "wrong.csv: no column is a price")
prices(
    "a price in words",
    HEAD + "8x a100,a100,8,dear,14,4,6.5\n",
    'wrong.csv, line 2: Purchase EUR is "dear"',
)
prices(
    "a price below zero",
    HEAD + "8x a100,a100,8,-5,14,4,6.5\n",
    "wrong.csv, line 2: Purchase EUR is -5",
)
prices(
    "no GPUs", HEAD + "8x a100,a100,0,120000,14,4,6.5\n", "wrong.csv, line 2: its hosts have 0 GPUs"
)
prices(
    "GPUs in words",
    HEAD + "8x a100,a100,eight,120000,14,4,6.5\n",
    'wrong.csv, line 2: gpus is "eight"',
)
prices("no rows", HEAD, "wrong.csv: has no row below its column names")
prices("nothing", "", "wrong.csv: is empty; its first line must name column names.")
prices(
    "a host twice",
    HEAD + "x,a100,8,120000,14,4,6.5\nx,a100,8,110000,14,4,6.5\n",
    'wrong.csv, line 3: "x" is offered on the terms purchase on line 2 too',
)
prices(
    "a life of nothing", HEAD + "x,a100,8,120000,14,0,6.5\n", "wrong.csv, line 2: life years is 0"
)
prices(
    "a field missing",
    HEAD + "x,a100,8\n",
    "wrong.csv: a row has 3 fields instead of 7 (line 2: x,a100,8)",
)
prices(
    "a column twice",
    "host,host,gpu_type,gpus,Purchase EUR\nx,x,a100,8,5\n",
    'wrong.csv, line 1: names the column "host" twice',
)
prices(
    "no column of GPUs",
    "host,Purchase EUR\nx,5\n",
    'wrong.csv, line 2: "x" is no machine that alloc knows, and no column says',
)
prices(
    "power in words", HEAD + "x,a100,8,120000,14,4,much\n", 'wrong.csv, line 2: power kw is "much"'
)
prices(
    "a speed of an unknown type",
    PRICES,
    'speed: the price sheet offers no GPU of type "h200"',
    "--speed h200=2",
)
prices("a speed in words", PRICES, '--speed b: "fast" is not a number', "--speed b=fast")
prices("a speed of nothing", PRICES, "--speed b: is 0; it must be more than 0.", "--speed b=0")
prices(
    "no quarter",
    PRICES,
    "Invalid value for '--quarters': Input should be greater than or equal to 1",
    "--quarters 0",
)
case(
    "prices: too few jobs",
    "plan init jobs.csv --prices prices.csv --speed a100=1 -o out.yaml",
    "history: has 2 jobs to forecast from, which say next to nothing of how",
)
prices(
    "more weeks held out than there are",
    PRICES,
    "history: has 5 whole weeks, and 50 of them are to be held out",
    "--hold-out 50 --held-out-output later.json",
)
case(
    "prices: no such file",
    "plan init history.csv --prices none.csv -o out.yaml",
    "none.csv: there is no such file",
)
case(
    "prices: no prices",
    "plan init jobs.csv -o out.yaml",
    "Missing option '--prices'. See `alloc plan init --help`.",
)
case(
    "prices: no history",
    "plan init none.csv --prices prices.csv -o out.yaml",
    "none.csv: there is no such file",
)
