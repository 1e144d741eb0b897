"""Patterns of names, as Kubernetes objects hold them, in time linear in the name.

Go's regular expressions cannot be made to take for ever, Python's can; a pattern of a stranger is
therefore run here as Go runs it, by following all ways through it at once. What node names need is
understood: letters, ``.``, classes, groups, ``|``, repetition, ``^`` and ``$``.

References
----------
Cox. Regular expression matching can be simple and fast. 2007. https://swtch.com/~rsc/regexp/;
K. Thompson. Regular expression search algorithm. CACM 11(6), 1968. doi:10.1145/363347.363387.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MAX_STEPS = 1_000
"""Repetitions nest, so a short pattern can unfold to very many steps, and each letter of a name
visits all of them."""
# As long as a name can be.
_MAX_REPEATS = 253
_DEEPEST = 50
_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": lambda c: c in "0123456789",
    "w": lambda c: c.isascii() and (c.isalnum() or c == "_"),
    "s": lambda c: c in " \t\n\r\f",
}

# A piece of a pattern: what it is, and its parts.
_Node = tuple[str, object]


class PatternError(ValueError):
    """A pattern is malformed or uses what is not understood; the message says which."""


@dataclass(frozen=True)
class _Step:
    """A step of the machine: a character, a fork, an edge of the name, or the end."""

    kind: str
    takes: Callable[[str], bool] | None = None
    ways: tuple[int, ...] = ()


class NamePattern:
    """A pattern that looks for itself anywhere in a name, as Go's ``MatchString`` does.

    Parameters
    ----------
    pattern
        The pattern.

    Raises
    ------
    PatternError
        If it is malformed, too large, or uses what is not understood.

    Examples
    --------
    >>> NamePattern("^gpu-[0-9]+$").matches("gpu-12")
    True
    """

    def __init__(self, pattern: str) -> None:
        parser = _Parser(pattern)
        node = parser.alternatives(0)
        if parser.position < len(pattern):
            raise PatternError("a ) has no (")
        self._steps: list[_Step] = []
        # Nothing, repeated often enough, takes for ever and adds no step.
        self._pieces = 0
        self._compile(node)
        self._add(_Step("end"))

    def matches(self, name: str) -> bool:
        """Return whether the pattern is found in a name."""
        current: set[int] = set()
        for position in range(len(name) + 1):
            # A match may begin anywhere.
            if self._follow(0, position, name, current):
                return True
            if position == len(name):
                break
            following: set[int] = set()
            for k in current:
                takes = self._steps[k].takes
                if takes is None or not takes(name[position]):
                    continue
                if self._follow(k + 1, position + 1, name, following):
                    return True
            current = following
        return False

    def _follow(self, start: int, position: int, name: str, reached: set[int]) -> bool:
        """Add the steps that are reached without a character; return whether the end is."""
        stack = [start]
        while stack:
            k = stack.pop()
            if k in reached:
                continue
            reached.add(k)
            step = self._steps[k]
            if step.kind == "end":
                return True
            if step.kind == "fork":
                stack += step.ways
            elif (step.kind == "^" and position == 0) or (
                step.kind == "$" and position == len(name)
            ):
                stack.append(k + 1)
        return False

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= _MAX_STEPS:
            raise PatternError("it repeats too much")
        self._steps.append(step)
        return len(self._steps) - 1

    def _compile(self, node: _Node) -> None:
        self._pieces += 1
        if self._pieces > 4 * _MAX_STEPS:
            raise PatternError("it repeats too much")
        kind, parts = node
        if kind == "char":
            self._add(_Step("char", takes=parts))  # type: ignore[arg-type]
        elif kind == "cat":
            for part in parts:  # type: ignore[attr-defined]
                self._compile(part)
        elif kind == "alt":
            self._compile_alternatives(parts)  # type: ignore[arg-type]
        elif kind == "repeat":
            self._compile_repeat(*parts)  # type: ignore[misc]
        else:
            self._add(_Step(kind))

    def _compile_alternatives(self, parts: Sequence[_Node]) -> None:
        fork = self._add(_Step("fork"))
        starts, ends = [], []
        for part in parts:
            starts.append(len(self._steps))
            self._compile(part)
            ends.append(self._add(_Step("fork")))
        self._steps[fork] = _Step("fork", ways=tuple(starts))
        for end in ends:
            self._steps[end] = _Step("fork", ways=(len(self._steps),))

    def _compile_repeat(self, node: _Node, least: int, most: int | None) -> None:
        for _ in range(least):
            self._compile(node)
        if most is None:
            fork = self._add(_Step("fork"))
            self._compile(node)
            back = self._add(_Step("fork", ways=(fork,)))
            self._steps[fork] = _Step("fork", ways=(fork + 1, back + 1))
            return
        forks = []
        for _ in range(most - least):
            forks.append(self._add(_Step("fork")))
            self._compile(node)
        for fork in forks:
            self._steps[fork] = _Step("fork", ways=(fork + 1, len(self._steps)))


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def alternatives(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise PatternError("its groups are nested too deep")
        options = [self.sequence(depth)]
        while self.take("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else ("alt", options)

    def sequence(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self.position < len(self.pattern) and self.peek() not in "|)":
            parts.append(self.repeated(self.atom(depth)))
        return ("cat", parts)

    def repeated(self, node: _Node) -> _Node:
        bounds = self.bounds()
        if bounds is None:
            return node
        # Whether it takes many or few makes no difference to whether it is found.
        self.take("?")
        if self.bounds() is not None:
            raise PatternError("it repeats a repetition")
        return ("repeat", (node, *bounds))

    def bounds(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.position == len(self.pattern):
            return None
        if self.peek() in simple:
            return simple[self.next()]
        if self.peek() != "{":
            return None
        body, closed, _ = self.pattern[self.position + 1 :].partition("}")
        low, comma, high = body.partition(",")
        if not closed or not low.isascii() or not low.isdigit() or len(body) > 9:
            raise PatternError("a { is not a repetition; write \\{ for the sign itself")
        if high and not (high.isascii() and high.isdigit()):
            raise PatternError("a { is not a repetition; write \\{ for the sign itself")
        self.position += len(body) + 2
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > _MAX_REPEATS or (most is not None and most < least):
            raise PatternError(f"it repeats more than {_MAX_REPEATS} times, or backwards")
        return least, most

    def atom(self, depth: int) -> _Node:
        sign = self.next()
        if sign == "(":
            if self.take("?") and not self.take(":"):
                raise PatternError("it uses (?, of which only (?: is understood")
            inside = self.alternatives(depth + 1)
            if not self.take(")"):
                raise PatternError("a ( is not closed")
            return inside
        if sign == "[":
            return ("char", self.character_class())
        if sign in "^$":
            return (sign, None)
        if sign in "*+?{":
            raise PatternError(f"there is nothing before {sign} to repeat")
        if sign == ".":
            return ("char", lambda c: c != "\n")
        return ("char", self.escaped() if sign == "\\" else _is(sign))

    def character_class(self) -> Callable[[str], bool]:
        negated = self.take("^")
        tests: list[Callable[[str], bool]] = []
        first = True
        while first or not self.take("]"):
            if self.position == len(self.pattern):
                raise PatternError("a [ is not closed")
            first = False
            sign = self.next()
            if sign == "[" and self.position < len(self.pattern) and self.peek() == ":":
                raise PatternError("it uses [:, which is not understood; write out the class")
            if sign == "\\":
                tests.append(self.escaped())
                continue
            rest = self.pattern[self.position : self.position + 2]
            if rest[:1] == "-" and rest[1:] not in ("", "]", "\\"):
                self.position += 2
                tests.append(_between(sign, rest[1]))
            else:
                tests.append(_is(sign))
        return lambda c: any(test(c) for test in tests) != negated

    def escaped(self) -> Callable[[str], bool]:
        if self.position == len(self.pattern):
            raise PatternError("it ends with a \\")
        sign = self.next()
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.lower() in _CLASSES:
            inside = _CLASSES[sign.lower()]
            return lambda c: not inside(c)
        if sign.isalnum():
            raise PatternError(f"it uses \\{sign}, which is not understood")
        return _is(sign)

    def peek(self) -> str:
        return self.pattern[self.position]

    def next(self) -> str:
        self.position += 1
        return self.pattern[self.position - 1]

    def take(self, sign: str) -> bool:
        """Step over a sign if it comes next."""
        if self.pattern[self.position : self.position + 1] != sign:
            return False
        self.position += 1
        return True


def _is(sign: str) -> Callable[[str], bool]:
    return lambda c: c == sign


def _between(low: str, high: str) -> Callable[[str], bool]:
    if high < low:
        raise PatternError(f"its range {low}-{high} runs backwards")
    return lambda c: low <= c <= high
