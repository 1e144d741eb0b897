"""Random inference problems: ``from inference_strategies import problems``."""

from __future__ import annotations

from hypothesis import strategies as st
from inference_problems import a_class, an_option

from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem, Period
from alloc.problems.inference_sizing.served import ServedModel


@st.composite
def problems(draw: st.DrawFn) -> InferenceProblem:
    """Draw problems of a few replicas: sizes that nest and that do not, losses, held hosts."""
    num_periods = draw(st.integers(1, 2))
    sizes = draw(st.sampled_from([(1,), (1, 2), (2, 3), (1, 3)]))
    types = draw(st.sampled_from([("h100",), ("h100", "a100")]))
    room = draw(st.sampled_from([3, 4]))
    options = tuple(
        an_option(g, s, speed=(0.7 + 0.6 * s) * (1.0 if g == "h100" else 0.6))
        for g in types
        for s in sizes
    )
    models = []
    for i in range(draw(st.integers(1, 2))):
        rates = draw(st.lists(st.sampled_from([0.0, 0.3, 1.0, 2.0]), min_size=num_periods,
                              max_size=num_periods))  # fmt: skip
        chosen = draw(st.lists(st.sampled_from(options), min_size=1, max_size=2, unique=True))
        models.append(
            ServedModel(
                f"m{i}",
                1000,
                (a_class(*rates),),
                tuple(chosen),
                failures=draw(st.integers(0, 1)),
                failure_unit=draw(st.sampled_from(["replica", "host"])),
            )
        )
    pools = []
    for g in types:
        number = draw(st.integers(1, 2))
        for k in range(number):
            pools.append(
                GpuPool(
                    f"{g}-{k}",
                    g,
                    room,
                    draw(st.integers(0, 3 - number)),
                    draw(st.sampled_from([1.0, 1.5, 4.0])),
                    80_000,
                    billing=draw(st.sampled_from(["used", "held"])),
                )
            )
    periods = tuple(Period(f"p{t}", draw(st.sampled_from([1.0, 5.0]))) for t in range(num_periods))
    return InferenceProblem(tuple(models), tuple(pools), periods)
