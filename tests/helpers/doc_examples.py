"""Examples: the fenced blocks of a Markdown file, and how they are run.

```` ```python ````
    Run in order, in one namespace a file. With ``file=NAME`` the block is also kept as that file,
    where the blocks after it can import it.
```` ```text output ````
    What the Python block before it prints.
```` ```console ````
    Lines after ``$ `` are commands, what follows them is what they print. A command may be piped
    into another, and ``echo $?`` shows an exit code; any other command must succeed.
```` ```sh ````
    Commands that are not run, because they need a clone, an installation or a trace; that they
    could be run is checked.

Expected output is compared without regard to blanks. ``...`` stands for anything. The word
``slow`` after the language leaves a block to the slow tests.
"""

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from alloc.cli.application import app

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and words, its text, and where it stands."""

    language: str
    words: tuple[str, ...]
    body: str
    line: int

    @property
    def slow(self) -> bool:
        return "slow" in self.words

    @property
    def file(self) -> str | None:
        return next((w.removeprefix("file=") for w in self.words if w.startswith("file=")), None)


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a file."""
    text = path.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(language, tuple(words), match["body"], line))
    return found


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output that is shown."""
    for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        # A backslash at the end of a line continues the command.
        command, _, output = re.sub(r"\\\n\s*", "", part).partition("\n")
        yield command.strip(), output


def agrees(expected: str, printed: str) -> bool:
    """Return whether what is printed is what is shown, but for blanks and ``...``."""
    pieces = [" ".join(piece.split()) for piece in expected.split("...")]
    pattern = ".*".join(re.escape(piece) for piece in pieces)
    return re.fullmatch(rf"\s*{pattern}\s*", " ".join(printed.split()), re.DOTALL) is not None


@dataclass
class Page:
    """A Markdown file whose examples are run one after the other."""

    name: str
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""
    exit_code: int = 0

    def run(self, block: Block) -> None:
        """Run a block.

        Raises
        ------
        AssertionError
            If it fails or prints something else than is shown.
        """
        where = f"{self.name}:{block.line}"
        if block.language == "python":
            self._run_python(block, where)
        elif block.language == "text" and "output" in block.words:
            assert agrees(block.body, self.printed), f"{where}: printed\n{self.printed}"
        elif block.language == "console":
            shown = list(commands(block))
            for k, (command, output) in enumerate(shown):
                stdout, printed = self._run_command(command, where)
                code_is_shown = [c for c, _ in shown[k : k + 2]][-1] == "echo $?"
                assert self.exit_code == 0 or code_is_shown, f"{where}: {command}\n{printed}"
                if output.strip():
                    # With or without the remarks and the progress on standard error.
                    agreed = agrees(output, stdout) or agrees(output, printed)
                    assert agreed, f"{where}: {command} printed\n{printed}"

    def _run_python(self, block: Block, where: str) -> None:
        if block.file is not None:
            Path(block.file).write_text(block.body, encoding="utf-8")
        # Lines of a traceback are those of the Markdown file.
        code = compile("\n" * (block.line - 1) + block.body, where, "exec")
        with redirect_stdout(io.StringIO()) as stdout:
            exec(code, self.namespace)
        self.printed = stdout.getvalue()

    def _run_command(self, command: str, where: str) -> tuple[str, str]:
        """Run a command, or several joined by pipes; return standard output, and both together."""
        if command == "echo $?":
            return str(self.exit_code), ""
        piped: bytes = b""
        printed = piped.decode()
        for part in command.split(" | "):
            program, *arguments = shlex.split(part)
            assert program == "alloc", f"{where}: {part} is no command of alloc"
            done = CliRunner(env={"COLUMNS": "150"}).invoke(app, arguments, input=piped)
            piped, printed, self.exit_code = done.stdout_bytes, done.output, done.exit_code
        return piped.decode(), printed
