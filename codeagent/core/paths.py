"""Names that are special wherever they appear: protected from writes, likely to hold secrets, or run by others."""

import re
import unicodedata
from functools import lru_cache

from codeagent.core.host_files import HOST_FILES

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
    *folders, name = [plain_name(part) for part in path.split("/") if part] or [""]
    for kind in HOST_FILES:
        if kind.names.fullmatch(name) or not kind.folders.isdisjoint(folders):
            return f"{path} {kind.when}"
    return None
