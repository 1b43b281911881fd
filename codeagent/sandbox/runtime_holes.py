"""What is known against a version of the container runtime (SECURITY.md T47)."""

import re

_FIXED = ((1, 2, 8), (1, 3, 3))
"""The first versions of 1.2 and 1.3 without CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881."""


def runtime_warning(runc: str | None) -> str | None:
    """One line where the version is older than the fixes; a distribution may have patched it all the same."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", runc or "")
    if numbers is None:
        return "the version of runc is unknown: see that it has the fixes for CVE-2025-31133"
    version = tuple(map(int, numbers.groups()))
    newest_line = version[:2] >= _FIXED[-1][:2]
    fixed = next((fix for fix in _FIXED if fix[:2] == version[:2]), _FIXED[-1] if newest_line else _FIXED[0])
    if version >= fixed:
        return None
    wanted = ".".join(map(str, fixed))
    return f"runc {runc} is older than {wanted}: escapes are known (CVE-2025-31133), unless your distribution fixed it"
