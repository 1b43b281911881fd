"""What commands may not see or leave behind, looked at around each of them: secrets, `.git`, `.codeagent`."""

from pathlib import Path

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.background import in_thread
from codeagent.sandbox.container import Container
from codeagent.sandbox.ground import Ground
from codeagent.sandbox.masks import NOT_ALL_MASKED, Mask
from codeagent.sandbox.pinned import Found
from codeagent.sandbox.quarantine import move_planted


class Guard:
    """Compares one container's mounts with what is there now."""

    def __init__(self, ground: Ground, state_dir: Path) -> None:
        self._ground = ground
        self._state_dir = state_dir
        self._exposed: frozenset[Mask] = frozenset()
        """Files that look like secrets, and could not be masked."""
        self._complete = True

    @property
    def exposed(self) -> str:
        """Why commands may come across secrets, as a phrase; empty where they may not."""
        if self._exposed:
            return f"{min(mask.found.name for mask in self._exposed)} may hold secrets and is not hidden"
        return "" if self._complete else NOT_ALL_MASKED

    def begin(self, container: Container) -> None:
        """A new container masks all that was found."""
        self._exposed = frozenset()
        self._complete = container.secrets.complete

    async def outdated(self, container: Container, *, busy: bool) -> list[str]:
        """Names that are no longer protected or masked as they should be: it has to be made anew.

        Raises SandboxUnavailable, once for each secret, where that cannot be because it is `busy`.
        """
        root, _ = self._ground.opened()
        if not root.unmoved():
            raise SandboxUnavailable(f"the workspace {root.path} was moved or replaced", "start codeagent again there")
        names = [found.name for found in container.protected if root.find(found.name) != found]
        names += [found.name for found in self._planted(container)]
        found = await in_thread(self._ground.secrets)
        self._complete = found.complete
        if not busy:
            return names + sorted({mask.found.name for mask in found.masks ^ container.secrets.masks})
        new = found.masks - container.secrets.masks - self._exposed
        self._exposed |= new
        if new and not names:
            shown = ", ".join(sorted(mask.found.name for mask in new))
            problem = f"{shown} may hold secrets and cannot be hidden while another command runs"
            raise SandboxUnavailable(
                problem, "run it again: until then, what reads more than single files is asked about"
            )
        return names

    def quarantined(self, container: Container) -> list[str]:
        """Moves away what commands planted; one sentence for each."""
        root, _ = self._ground.opened()
        return list(move_planted(root, {found.name for found in container.protected}, self._state_dir))

    def _planted(self, container: Container) -> list[Found]:
        """What should be protected, and was not there when the container was made."""
        root, _ = self._ground.opened()
        known = {found.name for found in container.protected}
        return [found for found in root.protected() if found.name not in known]
