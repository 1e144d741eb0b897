"""Completion: the names that the shell offers after a tab."""

from collections.abc import Callable, Iterable


def _offer(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        # A traceback in the middle of somebody's command line helps nobody.
        try:
            return [name for name in names() if name.startswith(incomplete)]
        except Exception:
            return []

    return complete


def _instances() -> Iterable[str]:
    from alloc.instances import manifest

    return [entry.id for entry in manifest()]


def _planning_problems() -> Iterable[str]:
    from alloc.instances.stored_planning import stored_planning_ids

    return stored_planning_ids()


def _problems() -> Iterable[str]:
    from alloc.instances import manifest

    return dict.fromkeys([*(entry.id for entry in manifest(None)), *_planning_problems()])


def _library() -> Iterable[str]:
    from alloc.instances import manifest

    entries = manifest(None)
    names = [name for entry in entries for name in (entry.formulation, entry.family)]
    return dict.fromkeys(["all", *names, *(entry.id for entry in entries)])


def _library_families() -> Iterable[str]:
    from alloc.instances import families

    return families(None)


def _operation_policies() -> Iterable[str]:
    from alloc.planning.operation import operation_policies

    return ["exact", *operation_policies()]


def _families() -> Iterable[str]:
    from alloc.instances import families

    return families()


def _problem_families() -> Iterable[str]:
    from alloc.families import FAMILIES

    return FAMILIES


def _objectives() -> Iterable[str]:
    from alloc.families import FAMILIES
    from alloc.objectives import OBJECTIVES

    return dict.fromkeys([*OBJECTIVES, *(o for f in FAMILIES.values() for o in f.objectives)])


def _methods() -> Iterable[str]:
    from alloc.families import FAMILIES

    return dict.fromkeys([*_backends(), *(m for f in FAMILIES.values() for m in f.methods)])


def _backends() -> Iterable[str]:
    from alloc.backends import BACKENDS

    return ["auto", *BACKENDS]


def _schedulers() -> Iterable[str]:
    from alloc.schedulers import scheduler_names

    return scheduler_names()


def _policies() -> Iterable[str]:
    from alloc.schedulers.shelf import shelf

    return [name for name, _, _ in shelf()]


def _added_policies() -> Iterable[str]:
    from alloc.schedulers.shelf import added_policies

    return added_policies()


def _readers() -> Iterable[str]:
    from alloc.instances.readers import READERS

    return READERS


def _document_kinds() -> Iterable[str]:
    from alloc.documents.kinds import KINDS

    return KINDS


def _topology_formats() -> Iterable[str]:
    from alloc.instances.topologies import TOPOLOGY_FORMATS

    return [kind for kind, known in TOPOLOGY_FORMATS.items() if known.read is not None]


def _written_topology_formats() -> Iterable[str]:
    from alloc.instances.topologies import TOPOLOGY_FORMATS

    return [kind for kind, known in TOPOLOGY_FORMATS.items() if known.write is not None]


def _machines() -> Iterable[str]:
    from alloc.instances.topologies import MACHINES

    return MACHINES


def complete_scheduler_list(incomplete: str) -> list[str]:
    """Complete the last name of a comma-separated list."""
    head, comma, last = incomplete.rpartition(",")
    return [f"{head}{comma}{name}" for name in complete_scheduler(last)]


complete_instance = _offer(_instances)
complete_planning_problem = _offer(_planning_problems)
complete_operation_policy = _offer(_operation_policies)
complete_problem = _offer(_problems)
complete_library = _offer(_library)
complete_library_family = _offer(_library_families)
complete_method = _offer(_methods)
complete_family = _offer(_families)
complete_problem_family = _offer(_problem_families)
complete_objective = _offer(_objectives)
complete_scheduler = _offer(_schedulers)
complete_policy = _offer(_policies)
complete_added_policy = _offer(_added_policies)
complete_reader = _offer(_readers)
complete_topology_format = _offer(_topology_formats)
complete_written_topology_format = _offer(_written_topology_formats)
complete_any_topology_format = _offer(
    lambda: dict.fromkeys([*_topology_formats(), *_written_topology_formats()])
)
complete_machine = _offer(_machines)
complete_document_kind = _offer(_document_kinds)
complete_instance_or_family = _offer(lambda: [*_families(), *_instances()])
