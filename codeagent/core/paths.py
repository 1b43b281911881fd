"""Names that are special wherever they appear: protected from writes, likely to hold secrets, or run by others."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from codeagent.core.host_files import HOST_FILES, INSTALLED

_PROTECTED = re.compile(r"\.git|git~\d+|\.codeagent|codeag~\d+")
_SECRET = re.compile(
    r"\.env(\..+)?|.+\.env"
    r"|.+\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?(\..+)?"
    r"|\.(netrc|pgpass|npmrc|pypirc|git-credentials|htpasswd|dockercfg|vault-token)"
    r"|credentials(\.(json|ya?ml|toml|ini|csv))?"
    r"|secrets?\.(json|ya?ml|toml|ini|env|txt)"
    r"|service[-_]account.*\.json"
)
_HARMLESS = re.compile(r"\.env\.(example|sample|template|dist|defaults?)|.+\.pub")
_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure"})
IGNORABLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
"""Code points that are letters or marks to a program and nothing to the eye."""


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """The name as the most forgiving file system would see it.

    NFKC and case folded, without ignorable code points, stream suffix, trailing dots and spaces.
    """
    visible = "".join(c for c in IGNORABLE.sub("", name) if unicodedata.category(c) not in ("Cf", "Cc", "Cs"))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
    return IGNORABLE.sub("", folded).split(":", 1)[0].strip().rstrip(". ")


def protected_part(path: str) -> str | None:
    """The component for which no tool may write the path: any spelling of `.git` or `.codeagent`."""
    parts = path.replace("\\", "/").split("/")
    return next((part for part in parts if part and _PROTECTED.fullmatch(plain_name(part))), None)


def secret_reason(path: str) -> str | None:
    """Why the file may hold secrets, as a phrase; None where its name does not say so."""
    *folders, name = [plain_name(part) for part in path.split("/") if part] or [""]
    if any(folder in _SECRET_FOLDERS for folder in folders):
        return f"{path} is in a folder that usually holds credentials"
    if _SECRET.fullmatch(name) and not _HARMLESS.fullmatch(name):
        return f"{path} looks like a file of secrets"
    return None


def host_reason(path: str) -> str | None:
    """Why a change of the file may run something outside the sandbox, as a phrase; None where it will not."""
    *folders, name = [part for part in path.split("/") if part] or [""]
    when = next((found for folder in folders if (found := _host_folder(folder))), "") or _host_name(name)
    return f"{path} {when}" if when else None


def watched(path: str) -> bool:
    """The file is compared after every command: it runs outside the sandbox, and no package manager put it there."""
    return installed_in(path) is None and host_reason(path) is not None


def watched_folder(path: str) -> bool:
    """Every file below the folder is `watched`."""
    return installed_in(path) is None and any(_host_folder(part) for part in path.split("/"))


def installed_in(path: str) -> str | None:
    """The outermost folder on the path that a package manager fills; None where there is none."""
    parts = path.split("/")
    found = next((at for at, part in enumerate(parts) if plain_name(part) in INSTALLED), None)
    return None if found is None else "/".join(parts[: found + 1])


GIT_RUNS = ("config", "config.worktree", "commondir", "hooks")
"""What in a git directory decides what git runs."""
_GIT_NAMES = frozenset({"head", "objects", "refs", "info", *GIT_RUNS})
"""What a git directory holds and git reads, folded."""


def git_layout(names: Iterable[str]) -> bool:
    """Whether git takes a folder that holds these names for a repository, whatever the folder is called."""
    found = {name.lower() for name in names}
    return "head" in found and ("commondir" in found or {"objects", "refs"} <= found)


def in_git_layout(name: str) -> bool:
    """What stands under this name in a folder that is a git directory may decide what git runs."""
    return plain_name(name) in _GIT_NAMES


@lru_cache(maxsize=4096)
def _host_folder(name: str) -> str:
    folded = plain_name(name)
    return next((kind.when for kind in HOST_FILES if folded in kind.folders), "")


@lru_cache(maxsize=4096)
def _host_name(name: str) -> str:
    """A link under the name of a folder may lead to one."""
    folded = plain_name(name)
    return next((kind.when for kind in HOST_FILES if kind.names.fullmatch(folded) or folded in kind.folders), "")
