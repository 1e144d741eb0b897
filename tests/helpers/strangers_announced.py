"""What the package of `strangers` announces: its family, and one that takes a kind of alloc."""

from alloc.families import Family

family = Family(
    name="lessons",
    code="X1",
    title="Lessons: which to take in the hours there are?",
    problem="strangers:Timetable",
    solution="strangers:Choice",
    page="strangers",
    objective="learnt",
    objectives=("learnt",),
    measure="strangers:measure",
    checker="strangers:check",
    methods={"auto": "strangers:try_all", "all": "strangers:try_all"},
    units={"learnt": "credits"},
)
taken = Family(**{**vars(family), "name": "taken", "kind": "instance"})
