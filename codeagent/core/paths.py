"""Names that are special everywhere: protected from writes, likely to hold secrets, or run by other
programs."""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from codeagent.core import host_files
from codeagent.core.errors import ProtectedPath, WorkspaceError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import spelled

_PROTECTED = lazy_regex(r"\.git|git~\d+|\.codeagent|codeag~\d+")
_SECRET = lazy_regex(
    r"\.env(\..+)?|.+\.env|\.dev\.vars|local\.settings\.json"
    r"|.+\.(pem|key|keypair|p8|pkcs8|p12|pkcs12|pfx|jks|keystore|keyring|ppk|ovpn)"
    r"|.+\.(kdbx?|psafe3|agilekeychain|keychain|kwallet)"
    r"|.+\.(tfvars|tfstate)(\.json|\.backup)?"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?(\..+)?|.+_(rsa|dsa|ecdsa|ed25519)|otr\.private_key"
    r"|[._]netrc|\.(pgpass|npmrc|pypirc|git-credentials|dockercfg|vault-token|databrickscfg|tugboat|boto|s3cfg)"
    r"|\.?htpasswd|proftpdpasswd|\.my(login)?\.cnf|\.vault[-_]pass(word)?|(.+\.)?kubeconfig"
    r"|credentials(\.(json|ya?ml|toml|ini|csv|xml|db|tfrc\.json))?"
    r"|secrets?\.(json|ya?ml|toml|ini|env|txt)|secret_token\.rb"
    r"|service[-_]account.*\.json|sftp-config\.json|\.?dbeaver-data-sources\.xml|filezilla\.xml|recentservers\.xml"
)
_HARMLESS = lazy_regex(r"\.env\.(example|sample|template|dist|defaults?)|.+\.pub")
_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure"})
_SECRET_PLACES = frozenset(
    {
        (".docker", "config.json"),
        ("gh", "hosts.yml"),
        (".config", "hub"),
        (".purple", "accounts.xml"),
    }
)
"""Files of secrets with an ordinary name, each with its folder."""
_IGNORABLE = {
    0x34F,
    0x115F,
    0x1160,
    0x17B4,
    0x17B5,
    *range(0x180B, 0x1810),
    0x3164,
    *range(0xFE00, 0xFE10),
    0xFFA0,
}
_TAGS = range(0xE0000, 0xE1000)


def ignorable(char: str) -> bool:
    """Whether the code point counts for a program but is invisible."""
    return ord(char) in _IGNORABLE or ord(char) in _TAGS


@lru_cache(maxsize=16384)
def plain_name(name: str) -> str:
    """Return the name as the most forgiving file system would see it.

    NFKC and case folded, without ignorable code points, stream suffix, trailing dots and spaces.
    """
    if name.isascii() and name.isprintable():
        return name.lower().split(":", 1)[0].strip().rstrip(". ")
    visible = "".join(
        c for c in name if unicodedata.category(c) not in ("Cf", "Cc", "Cs") and not ignorable(c)
    )
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
    plain = "".join(c for c in folded if not ignorable(c))
    return plain.split(":", 1)[0].strip().rstrip(". ")


def protected_part(path: str) -> str | None:
    """Return the component that protects the path from every tool: any spelling of `.git` or
    `.codeagent`."""
    if path.isascii() and path.isprintable():
        lowered = path.lower()
        if (
            "git" not in lowered and "codeag" not in lowered
        ):  # most paths, and then no part of it can be one
            return None
    parts = path.replace("\\", "/").split("/")
    return next((part for part in parts if part and _PROTECTED.fullmatch(plain_name(part))), None)


def refuse_protected(path: str) -> None:
    """Raise ProtectedPath if no tool may write to the path."""
    if (part := protected_part(path)) is not None:
        raise ProtectedPath(f"{path} is protected: no tool writes to {part}; nothing was written")


def hidden_secret(asked: str, resolved: str) -> str | None:
    """Return why a link with a harmless name is not followed, as a phrase; None if it does not lead
    to a file of secrets."""
    reason = secret_reason(resolved)
    if reason is None or secret_reason(asked) is not None:
        return None
    return f"{spelled(asked)} is a link, and {reason}"


def refuse_hidden_secret(asked: str, resolved: str) -> None:
    """Raise WorkspaceError if a link with a harmless name leads to a file of secrets."""
    if (why := hidden_secret(asked, resolved)) is not None:
        raise WorkspaceError(f"{why}; ask for {spelled(resolved)} by its own name")


def _plain(path: str) -> list[str]:
    """Return the parts of the path, each by its `plain_name`; at least one."""
    return [plain_name(part) for part in path.split("/") if part] or [""]


def secret_reason(path: str) -> str | None:
    """Return why the file may hold secrets, as a phrase; None if its name does not say so."""
    *folders, name = _plain(path)
    if any(folder in _SECRET_FOLDERS for folder in folders):
        return f"{spelled(path)} is in a folder that usually holds credentials"
    if (*folders[-1:], name) in _SECRET_PLACES or (
        _SECRET.fullmatch(name) and not _HARMLESS.fullmatch(name)
    ):
        return f"{spelled(path)} looks like a file of secrets"
    return None


def host_reason(path: str) -> str | None:
    """Return why a change to the file may run something outside the sandbox, as a phrase; None if
    it will not."""
    *folders, name = _plain(path)
    when = host_files.runs(folders, name)
    return f"{spelled(path)} {when}" if when else None


def runs_by_folder(path: str) -> bool:
    """Whether the file runs outside the sandbox because of a folder that it is in, whatever its own
    name is."""
    return host_files.runs_below(_plain(path)) != ""


def watched(path: str) -> bool:
    """Whether the file is compared after every command: it may run outside the sandbox and is not a
    package's own."""
    *folders, name = _plain(path)
    return INSTALLED.isdisjoint((*folders, name)) and host_files.runs(folders, name) != ""


def holds_back(path: str) -> bool:
    """Whether a program outside the sandbox may do more once the file is gone: deleting it is like
    writing it."""
    *folders, name = _plain(path)
    return host_files.holds_back(folders, name)


def watched_folder(path: str) -> bool:
    """Whether every file below the folder is `watched`."""
    return INSTALLED.isdisjoint(_plain(path)) and runs_by_folder(path)


def installed_in(path: str) -> str | None:
    """Return the outermost folder on the path that a package manager fills; None if there is
    none."""
    parts = path.split("/")
    found = next((at for at, part in enumerate(parts) if plain_name(part) in INSTALLED), None)
    return None if found is None else "/".join(parts[: found + 1])


GIT_RUNS = ("config", "config.worktree", "commondir", "hooks")
"""The files of a git directory that decide what git runs."""
_GIT_NAMES = frozenset({"head", "objects", "refs", "info", *GIT_RUNS})
"""The files that make a folder a git directory, folded."""


def git_layout(names: Iterable[str]) -> bool:
    """Whether git takes a folder with these names in it for a repository, whatever the folder is
    called."""
    found = {name.lower() for name in names}
    return "head" in found and ("commondir" in found or {"objects", "refs"} <= found)


def in_git_layout(name: str) -> bool:
    """Whether a file or folder of this name in a git directory may decide what git runs."""
    return plain_name(name) in _GIT_NAMES


INSTALLED = frozenset(
    {".yarn", ".venv", "venv", "node_modules", "site-packages", ".tox", ".nox", ".terraform"}
)
"""Folders of host files that a package manager fills: a write there asks, an installation by a
command is reported."""
