"""What the package of `third_party` announces: its family, and one that takes a kind of alloc."""

from alloc.families import Family

family = Family(
    name="lessons",
    code="X1",
    title="Lessons: which to take in the hours there are?",
    problem="third_party:Timetable",
    solution="third_party:Choice",
    page="third_party",
    objective="learnt",
    objectives=("learnt",),
    measure="third_party:measure",
    checker="third_party:check",
    methods={"auto": "third_party:try_all", "all": "third_party:try_all"},
    units={"learnt": "credits"},
)
taken = Family(**{**vars(family), "name": "taken", "kind": "instance"})
