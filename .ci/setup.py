"""Makes .venv from the lock file: `python3 .ci/setup.py`. Uses only the standard library."""

import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
VENV = Path(".venv")


def main() -> int:
    if sys.version_info < OLDEST:
        print(
            f"codeagent needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {sys.version.split()[0]}."
        )
        print("Name another one: make setup PYTHON=python3.12")
        return 2
    if VENV.is_symlink():  # of another copy of this code, which would be changed to use this one
        print(
            f"{VENV} leads to {VENV.resolve()}, which stays as it is; this copy gets its own",
            flush=True,
        )
        VENV.unlink()
    if not (VENV / "bin/python").exists():
        print("setting up .venv", flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)])
        if made.returncode:
            print("python3 -m venv failed; on Debian: apt-get install python3-venv")
            return 1
    pip = [
        str(VENV / "bin/python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    print("installing the locked requirements (about a minute the first time)", flush=True)
    subprocess.run([*pip, "--require-hashes", "-r", "requirements.lock"], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], check=True)
    # Where PYTHONDONTWRITEBYTECODE is set, every start would compile all of it again.
    subprocess.run([str(VENV / "bin/python"), "-m", "compileall", "-q", "codeagent"], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
