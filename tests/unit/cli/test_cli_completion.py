"""Completion: what is offered, and that it never breaks somebody's command line."""

import pytest

from alloc.cli import completion


@pytest.mark.parametrize(
    ("complete", "begun", "offered"),
    [
        (completion.complete_instance, "elastic-tiny/", "elastic-tiny/01"),
        (completion.complete_instance_or_family, "elastic-t", "elastic-tiny"),
        (completion.complete_family, "elastic-s", "elastic-small"),
        (completion.complete_problem_family, "ro", "round"),
        (completion.complete_objective, "make", "makespan"),
        (completion.complete_method, "a", "auto"),
        (completion.complete_scheduler, "opt", "optimus"),
        (completion.complete_scheduler_list, "fifo,sr", "fifo,srtf"),
        (completion.complete_reader, "it", "itp"),
        (completion.complete_document_kind, "sol", "solution"),
    ],
)
def test_names_that_fit_are_offered_and_no_others(complete, begun, offered):
    found = complete(begun)
    assert offered in found
    assert all(name.startswith(begun) for name in found)


def test_a_failure_offers_nothing(monkeypatch):
    """A traceback in the middle of a half-typed command helps nobody."""

    def broken():
        raise RuntimeError("the manifest is damaged")

    monkeypatch.setattr("alloc.instances.manifest", broken)
    assert completion.complete_instance("elastic") == []
