"""Wrong tables of jobs, options of them, and other files of jobs."""

from __future__ import annotations

from wrong_inputs import JOBS, case

IMPORT = "instances import"

TABLE = "instances import table wrong.csv -O cluster_gpus=64 -o out.json"


def table(
    name: str, text: str | bytes, says: str, more: str = "", *, counted: bool = False
) -> None:
    """Add a table of jobs; text without a line of columns gets the usual ones."""
    if isinstance(text, str) and "submit" not in text.lower():
        text = f"id,submit,duration,gpus\n{text}\n"
    case(f"table: {name}", f"{TABLE} {more}".strip(), says, counted=counted, wrong__csv=text)


GOOD = "g,0,3600,8"
table(
    "no arrival",
    "id,start,duration,gpus,submitter\na,0,10,1,x\n",
    "wrong.csv: no column looks like the arrival",
)
table("no duration", "id,submit,gpus\na,0,1\n", "wrong.csv: no column looks like the duration")
table("no GPUs", "id,submit,duration\na,0,10\n", "wrong.csv: no column looks like the gpus")
table(
    "a column twice",
    "id,submit,submit,duration,gpus\na,0,0,10,1\n",
    'wrong.csv, line 1: names the column "submit" twice',
)
table(
    "two columns of one meaning",
    "id,submit,submit_time,duration,gpus\na,0,0,10,1\n",
    "Not used: submit_time",
    counted=True,
)
table(
    "only the line of columns",
    "id,submit,duration,gpus\n",
    "wrong.csv: holds no job that can be read: it has no rows",
)
table("empty", b"", "wrong.csv: is empty; its first line must name column names.")
table("spaces alone", b"  \n \n", "wrong.csv: is empty; its first line must name column names.")
table("no columns at all", b"1,2,3,4\n5,6,7,8\n", "wrong.csv: no column looks like the arrival")
table(
    "a picture",
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "wrong.csv: is no text; give the table as CSV in UTF-8, or as Parquet.",
)
table(
    "zeros", b"\x00" * 64, "wrong.csv: is no text; give the table as CSV in UTF-8, or as Parquet."
)
table(
    "UTF-16", "id,submit,duration,gpus\na,0,10,1\n".encode("utf-16"), "wrong.csv: is text in UTF-16"
)
table(
    "Latin-1",
    "id,submit,duration,gpus,user\na,0,10,1,J\u00f6rg\n".encode("latin-1"),
    "wrong.csv: holds no job that can be read: 1 x is not UTF-8 text (line 2:",
)
table("map of no column", JOBS, 'wrong.csv: has no column "Job" for id', "--map id=Job")
table("map of no key", JOBS, 'map: "idd" is nothing that a column can be', "--map idd=id")
table("map without =", JOBS, 'map: "id" has no column; write id=COLUMN.', "--map id")
table(
    "map of a key twice",
    JOBS,
    'map: "id" is named twice; name one column for it.',
    "--map id=id,id=gpus",
)
table("map with nothing", JOBS, 'map: "id" has no column; write id=COLUMN.', "--map id=")
table("a column for two keys", JOBS, "wrong.csv: no column looks like the gpus", "--map id=gpus")
# Rows.
table(
    "a field missing",
    f"{GOOD}\na,0,10",
    "1 x has 3 fields instead of 4 (line 3: a,0,10)",
    counted=True,
)
table(
    "a field too many",
    f"{GOOD}\na,0,10,1,5",
    "1 x has 5 fields instead of 4 (line 3: a,0,10,1,5)",
    counted=True,
)
table("an id twice", f"{GOOD}\ng,5,10,1", "1 x id appears before (line 3: g,5,10,1)", counted=True)
table(
    "no job has run", "a,0,0,1", "wrong.csv: holds no job that can be read: 1 x ran for no time (a)"
)
table(
    "all rows unreadable",
    "a,x,y,z",
    "wrong.csv: holds no job that can be read: 1 x gpus is not a count of GPUs",
)
table(
    "arrival no time",
    f"{GOOD}\na,soon,10,1",
    "1 x submit is not a time such as 1700000000, 2024-05-31 14:00:00 or",
    counted=True,
)
table(
    "arrival a date",
    "g,2024-05-31 10:00,1:00:00,1\na,31.05.2024 10:00,1:00:00,1",
    "1 x submit is not a time such as 1700000000, 2024-05-31 14:00:00 or",
    counted=True,
)
table(
    "a day that is not",
    "g,2024-05-31 10:00,1:00:00,1\na,2024-02-30 10:00,1:00:00,1",
    "1 x submit is a date or time that does not exist (line 3: a,2024-02-30",
    counted=True,
)
table(
    "numbers and dates",
    "g,2024-05-31 10:00,1:00:00,1\na,1717149600,1:00:00,1",
    "1 x submit is a number, not a time without zone as others (line 3:",
    counted=True,
)
table(
    "zones and none",
    "g,2024-05-31 10:00,1:00:00,1\na,2024-05-31T10:00:00Z,1:00:00,1",
    "1 x submit is a time with a zone, not a time without zone as others (line",
    counted=True,
)
table(
    "arrival infinite",
    f"{GOOD}\na,inf,10,1",
    "1 x submit is not a time such as 1700000000, 2024-05-31 14:00:00 or",
    counted=True,
)
table(
    "arrival not a number",
    f"{GOOD}\na,nan,10,1",
    "1 x submit is empty (line 3: a,nan,10,1)",
    counted=True,
)
table("arrival below zero", f"{GOOD}\na,-5,10,1", "2 jobs on 64 GPUs", counted=True)
table(
    "arrival in milliseconds beside seconds",
    "g,1717149600,60,8\na,1717149600000,10,1",
    "1 x submit is after the year 5000 in this unit; set time_unit=ms, us or ns",
    counted=True,
)
table(
    "duration below zero",
    f"{GOOD}\na,0,-10,1",
    "1 x duration is below 0 (line 3: a,0,-10,1)",
    counted=True,
)
table(
    "duration of two parts",
    f"{GOOD}\na,0,05:00,1",
    "1 x duration has two parts, hours and minutes or minutes and seconds;",
    counted=True,
)
table(
    "duration of 75 minutes",
    f"{GOOD}\na,0,01:75:00,1",
    "1 x duration has more than 59 minutes or seconds (line 3: a,0,01:75:00,1)",
    counted=True,
)
table(
    "duration in words",
    f"{GOOD}\na,0,an hour,1",
    "1 x duration is not a duration such as 5400, 01:30:00 or 1-12:00:00 (line",
    counted=True,
)
table(
    "duration D-HH:MM:SS of 25 hours",
    f"{GOOD}\na,0,1-25:00:00,1",
    "1 x duration has more than 23 hours beside its days (line 3:",
    counted=True,
)
table("duration D-HH:MM:SS", f"{GOOD}\na,0,1-12:00:00,1", "2 jobs on 64 GPUs", counted=True)
table(
    "duration of ages",
    f"{GOOD}\na,0,1e30,1",
    "1 x runs for more than a century; set duration_unit (line 3: a,0,1e30,1)",
    counted=True,
)
table(
    "ends before it starts",
    "id,submit,start,end,gpus\ng,0,0,10,1\na,0,10,5,1\n",
    "1 x ends before it starts (line 3: a,0,10,5,1)",
    counted=True,
)
table(
    "never ended",
    "id,submit,start,end,gpus\ng,0,0,10,1\na,0,10,Unknown,1\n",
    "1 x has no run time: it has not run, or not ended (a)",
    counted=True,
)
table(
    "starts before its submission",
    "id,submit,start,end,gpus\ng,0,0,10,1\na,9,5,12,1\n",
    "1 x starts before its submission, which stays its arrival (a)",
    counted=True,
)
table(
    "duration is not end less start",
    "id,submit,start,end,duration,gpus\ng,0,0,10,10,1\na,0,0,10,4,1\n",
    "1 x duration is not end less start, and is taken (a)",
    counted=True,
)
table(
    "GPUs of a type",
    f"{GOOD}\na,0,10,gres/gpu:a100=4",
    "1 x asks for a GPU type, of which the cluster made here has only one (a)",
    counted=True,
)
table(
    "GPUs of two types",
    f'{GOOD}\na,0,10,"gres/gpu:a100=2,gres/gpu:h100=2"',
    "1 x gpus asks for GPUs of several types (line 3:",
    counted=True,
)
table(
    "GPUs in words",
    f"{GOOD}\na,0,10,four",
    "1 x gpus is not a count of GPUs such as 4, gpu:a100:4 or gres/gpu=4 (line",
    counted=True,
)
table(
    "GPUs below zero", f"{GOOD}\na,0,10,-4", "1 x gpus is below 0 (line 3: a,0,10,-4)", counted=True
)
table("no GPU", f"{GOOD}\na,0,10,0", "1 x asks for no GPU (a)", counted=True)
table(
    "a share of several GPUs",
    f"{GOOD}\na,0,10,2.5",
    "1 x gpus is a share of several GPUs (line 3: a,0,10,2.5)",
    counted=True,
)
table(
    "more GPUs than the cluster",
    f"{GOOD}\na,0,10,128",
    "1 x larger than the cluster of 64 GPUs (a (128 x 1 GPU))",
    counted=True,
)
table(
    "GPUs in percent",
    f"{GOOD}\na,0,10,400%",
    "1 x gpus is not a count of GPUs such as 4, gpu:a100:4 or gres/gpu=4 (line",
    counted=True,
)
table(
    "tasks that do not divide the GPUs",
    "id,submit,duration,gpus,nodes\ng,0,10,8,1\na,0,10,8,3\n",
    "1 x its GPUs do not divide among its tasks, which are not used (a)",
    counted=True,
)
table(
    "tasks below one",
    "id,submit,duration,gpus,nodes\ng,0,10,8,1\na,0,10,8,0\n",
    "1 x nodes is not a whole number of 1 or more (line 3: a,0,10,8,0)",
    counted=True,
)
table(
    "an hour that a clock change leaves out",
    "g,2024-03-31 01:30,1:00:00,1\na,2024-03-31 02:30,1:00:00,1",
    "1 x submit is a time that the clock change in Europe/Berlin left out (line",
    "-O timezone=Europe/Berlin",
    counted=True,
)
table(
    "an hour that a clock change repeats",
    "g,2024-10-27 01:30,1:00:00,1\na,2024-10-27 02:30,1:00:00,1",
    "1 x submit is a time that Europe/Berlin had twice (clock change); the",
    "-O timezone=Europe/Berlin",
    counted=True,
)
table(
    "a deadline before the arrival",
    "id,submit,duration,gpus,deadline\ng,0,10,8,100\na,50,10,8,20\n",
    "1 x deadline is not after submission (line 3: a,50,10,8,20)",
    counted=True,
)
table(
    "a weight of nothing",
    "id,submit,duration,gpus,weight\ng,0,10,8,1\na,50,10,8,0\n",
    "1 x weight is not above 0 (line 3: a,50,10,8,0)",
    "--map weight=weight",
    counted=True,
)
table(
    "an open quotation mark",
    f'{GOOD}\n"a,0,10,1',
    '1 x is not comma-separated text (line 3: "a,0,10,1)',
    counted=True,
)
# Options.


def option(name: str, more: str, says: str) -> None:
    """Add options to a table that is right."""
    case(f"option: {name}", f"{IMPORT} table jobs.csv -o out.json {more}", says)


option("unknown zone", "-O timezone=Mars/Olympus", 'timezone is "Mars/Olympus"')
option("unknown unit", "-O duration_unit=fortnights", 'duration_unit is "fortnights"')
option("unknown option", "-O cluster=64", 'reader "table" has no option "cluster"')
option("option without =", "-O load", '--option "load": write KEY=VALUE, for example slot_s=1200.')
option("load of nothing", "-O load=0", "suggest_gpus: load is 0; it must be more than 0.")
option("load in percent", "-O load=85%", 'load is "85%"; give a number.')
option("a size in words", "-O num_hosts=many", 'num_hosts is "many"; give a whole number.')
option("no host", "-O num_hosts=0", "cluster: num_hosts is 0; it must be more than 0.")
option(
    "two sizes",
    "-O load=0.5 -O num_hosts=4",
    "cluster: more than one of cluster_gpus, num_hosts and load is given",
)
option(
    "window after the end", "-O start=9999999", "no job is submitted from 1e+07 s to 3.1636e+09 s"
)
option("window of nothing", "-O length_s=0", "window: length_s is 0; it must be more than 0.")
option(
    "states that no job has",
    "-O states=COMPLETED",
    "jobs.csv: holds no job that can be read: 2 x state unknown is not wanted",
)
option("no job at most", "-O max_jobs=0", "window: max_jobs is 0; it must be more than 0.")
option("slots of nothing", "-O slot_s=0", 'instance "jobs": slot_s is 0')
option("slots below zero", "-O slot_s=-5", 'instance "jobs": slot_s is -5')
option(
    "unknown delimiter",
    "-O delimiter=pipe",
    'delimiter is "pipe". Give one of comma, tab, bar, semicolon.',
)
option("wrong delimiter", "-O delimiter=tab", "jobs.csv: no column looks like the arrival")
option(
    "no such deadline",
    "-O deadlines=firm",
    'deadlines is "firm". Give one of soft, hard, refusable, none.',
)
option("yes is no truth", "-O preemptible=perhaps", 'preemptible is "perhaps"; give true or false.')
option("restarts below zero", "-O restart_cost_s=-1", 'job "a": restart_cost_s is -1')
option("more hosts than GPUs", "-O num_hosts=1 -O gpus_per_host=0", "cluster: gpus_per_host is 0")
option(
    "a topology and a size",
    "--topology tree.conf --host-type dgx-h100 -O num_hosts=4",
    "cluster: a topology is given, and cluster_gpus, num_hosts or load too",
)
option(
    "a host type without a topology",
    "--host-type dgx-h100",
    '--host-type "dgx-h100" says what the hosts of a topology file are',
)
option("weeks of a table", "--week 3", '--week: is for itp and philly, and this is "table"')

case("import: no such kind", f"{IMPORT} tabel jobs.csv", 'unknown kind of trace "tabel"')
case("import: no such file", f"{IMPORT} table jbos.csv", "jbos.csv: there is no such file")
case("import: a folder", f"{IMPORT} table .", ".: cannot be read (Is a directory)")
case(
    "import: nowhere to write",
    f"{IMPORT} table jobs.csv -o none/out.json",
    "none/out.json: cannot be written: there is no folder none",
)
case(
    "import: a trace of Philly that is none",
    f"{IMPORT} philly jobs.csv",
    "jobs.csv, line 1: expected the columns",
)
case(
    "import: SWF that is none",
    f"{IMPORT} swf jobs.csv",
    "jobs.csv: holds no job that can be read: 3 x has 1 fields instead of 18",
)
case(
    "import: sacct that is a CSV",
    f"{IMPORT} slurm jobs.csv",
    "jobs.csv: is neither JSON nor text with bars",
)
case(
    "import: sacct --json cut short",
    f"{IMPORT} slurm wrong.json",
    "wrong.json ends too early, at line 1, column 24",
    wrong__json='{"jobs": [{"job_id": 1,',
)
case(
    "import: sacct --json of a list",
    f"{IMPORT} slurm wrong.json",
    'wrong.json: has no list "jobs"',
    wrong__json="[]",
)
case(
    "import: sacct without jobs",
    f"{IMPORT} slurm wrong.txt",
    "wrong.txt: holds no job that can be read: it has no rows",
    wrong__txt="JobID|State|Submit|Elapsed|AllocTRES\n",
)
case(
    "import: sacct without a column",
    f"{IMPORT} slurm wrong.txt",
    "wrong.txt: no column looks like the arrival",
    wrong__txt="JobID|State|Elapsed|AllocTRES\n1|COMPLETED|01:00:00|gres/gpu=1\n",
)
