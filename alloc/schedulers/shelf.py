"""The shelf: learned policies by name, those that alloc ships and those that the user added.

A policy's file is called as the policy is, so that the names are known without opening a file:
listing and completing them loads neither onnx nor ONNX Runtime.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alloc.errors import AllocError, InstanceError, nearest
from alloc.schedulers.naming import SUFFIX

if TYPE_CHECKING:
    from alloc.schedulers.learned.policy_file import PolicyFile
    from alloc.schedulers.learned.policy_scheduler import PolicyScheduler

FOLDER_VARIABLE = "ALLOC_POLICIES"
"""Environment variable that names another folder for the user's policies."""

_SHIPPED = Path(__file__).parent / "learned" / "policies"
_PREFIX = "policy:"

Origin = Literal["shipped", "added"]


def user_folder() -> Path:
    """Return the folder of the user's policies, whether it exists or not."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "alloc" / "policies"


def shipped_policies() -> dict[str, Path]:
    """Return the policies of alloc, name to file."""
    return _policies_in(_SHIPPED)


def added_policies() -> dict[str, Path]:
    """Return the policies that the user added, name to file; alloc's own keep their names."""
    shipped = shipped_policies()
    return {k: path for k, path in _policies_in(user_folder()).items() if k not in shipped}


def _policies_in(folder: Path) -> dict[str, Path]:
    try:
        found = [p for p in folder.iterdir() if p.suffix == SUFFIX and p.name[0] != "."]
    except OSError:  # no such folder, or not ours to read: nothing on that shelf
        return {}
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


def is_policy_path(name: str) -> bool:
    """Return whether a scheduler's name is the path of a policy file."""
    return name.endswith(SUFFIX)


def policy_path(name: str) -> Path:
    """Return the file of a policy: one on the shelf by name, any by its path.

    Raises
    ------
    InstanceError
        If there is no policy of that name.
    """
    if is_policy_path(name):
        return Path(name)
    known = {**added_policies(), **shipped_policies()}
    if name not in known:
        listed = f"Known: {', '.join(known)}" if known else "None was added yet"
        raise InstanceError(
            f'there is no policy "{name[:100]}"{nearest(name, known, ".")} {listed}; name one '
            f"in another folder by its path, which ends in {SUFFIX}."
        )
    return known[name]


@dataclass(frozen=True)
class ShelvedPolicy:
    """Makes the scheduler of a policy on the shelf; the file is opened when it is called.

    Parameters
    ----------
    path
        The file.
    name
        The name it must have, or None for whatever it says.
    """

    path: Path
    name: str | None = None

    def __call__(self, sample: bool = False) -> PolicyScheduler:
        """Return the scheduler.

        Parameters
        ----------
        sample
            Draw each action from the network's distribution, as in training, instead of taking the
            likeliest.

        Raises
        ------
        InstanceError
            If the file is not a policy, or has another name than it is looked up by.
        """
        from alloc.schedulers.learned.policy_scheduler import PolicyScheduler

        made = PolicyScheduler(self.path, sample)
        if self.name is not None and made.policy.name != self.name:
            raise InstanceError(
                f'{self.path}: calls itself "{made.policy.name}"; take the file away and add it '
                "with `alloc policies add`."
            )
        return made

    @property
    def features(self) -> tuple[str, ...]:
        """The rules it honours."""
        return self().features


def shipped_entries() -> dict[str, str]:
    """Return the policies of alloc as lines of a registry: name to ``module:attribute``."""
    return {name: f"{__name__}:{_PREFIX}{name}" for name in shipped_policies()}


def __getattr__(name: str) -> ShelvedPolicy:
    """Return the maker of a shipped policy."""
    policy = name.removeprefix(_PREFIX)
    if policy != name and policy in (shipped := shipped_policies()):
        return ShelvedPolicy(shipped[policy], policy)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def shelf() -> Iterator[tuple[str, Path, Origin]]:
    """Yield every policy on the shelf: name, file, and who put it there."""
    for name, path in shipped_policies().items():
        yield name, path, "shipped"
    for name, path in added_policies().items():
        yield name, path, "added"


def add_policy(source: str | PathLike[str], taken: tuple[str, ...]) -> PolicyFile:
    """Check a policy file and copy it to the user's shelf, under the name it gives itself.

    Parameters
    ----------
    source
        The file.
    taken
        The names that schedulers have already.

    Returns
    -------
    PolicyFile
        The policy that was added.

    Raises
    ------
    InstanceError
        If it is not a policy or its name is taken.
    AllocError
        If it cannot be written.
    """
    from alloc.documents.files import write_bytes
    from alloc.schedulers.learned.policy_file import read_policy

    policy = read_policy(source)
    if policy.name in taken:
        cure = (
            f"`alloc policies remove {policy.name}` removes the old one"
            if policy.name in added_policies()
            else "give it another name in its model card"
        )
        raise InstanceError(
            f'{source}: calls itself "{policy.name}", and there is a scheduler of that name; '
            f"{cure}."
        )
    folder = user_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AllocError(
            f"{folder}: cannot be made for the user's policies ({error.strerror}); set "
            f"{FOLDER_VARIABLE} to a folder that can."
        ) from None
    write_bytes(folder / f"{policy.name}{SUFFIX}", policy.model)
    return policy


def remove_policy(name: str) -> Path:
    """Remove a policy that the user added; return the file that is gone.

    Raises
    ------
    InstanceError
        If it is not on the user's shelf.
    AllocError
        If it cannot be removed.
    """
    if name in shipped_policies():
        raise InstanceError(f'policy "{name}" is part of alloc and stays; only added ones go.')
    added = added_policies()
    if name not in added:
        listed = f"Added are: {', '.join(added)}" if added else "None was added"
        raise InstanceError(
            f'no policy "{name[:100]}" was added{nearest(name, added, ".")} {listed}.'
        )
    try:
        added[name].unlink()
    except OSError as error:
        raise AllocError(f"{added[name]}: cannot be removed ({error.strerror}).") from None
    return added[name]
