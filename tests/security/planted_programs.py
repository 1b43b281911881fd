"""A folder in which a line can be run for real: an `rm` and a `pre-push` hook that only leave a
mark."""

import os
import shutil
import subprocess
from pathlib import Path

_FILES = {
    "f": "x\n",
    "word": "rm\n",
    "s.sed": "1e rm f\n",
    "p.awk": 'BEGIN { system("rm f") }\n',
    "evil.mk": "a:\n\t@rm f\n",
    "Makefile": "all:\n\t@:\nshow:\n\t@echo $(X)\nrun:\n\t@$(X) f\n",
    "evil.py": "import os\nos.system('rm f')\n",
    "evil.js": "require('child_process').execSync('rm f')\n",
    "script.js": "1\n",
    "script.pl": "1;\n",
    "true.elf": "",
    "evil.cfg": "[alias]\n\tz = push\n",
    "home/.gitconfig": "[alias]\n\tz = push\n",
    "xdg/git/config": "[alias]\nz = push\n",
    "sites/sitecustomize.py": "import os\nos.system('rm f')\n",
    "cred": "protocol=https\nhost=h.invalid\n\n",
    "opts": "--checkpoint=1\n--checkpoint-action=exec=./r.sh\nf\n",
    "big": "\n".join(map(str, range(20_000))) + "\n",
    "sqlrc": ".shell rm f\n",
    "sshcfg": "Host h\n  ProxyCommand ./r.sh\n",
    "wgetrc": "use_askpass = ./r.sh\n",
    "x.c": "int main(void) { return 0; }\n",
    "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"a": ":"}}\n',
    "node_modules/m/package.json": '{"name": "m", "version": "1.0.0"}\n',
    "evil.cmake": "execute_process(COMMAND rm f)\n",
    "page.1": ".TH X 1\n.SH NAME\nx\n",
    ".gitattributes": "f diff=d filter=d merge=d\n",
}
_SCRIPTS = {
    "r.sh": 'r""m f',
    "core/git-z": "rm f",
    "core/cc1": "rm f",
    "bin/git-z-tool": "rm f",
    "bin/git-merge-z": "rm f",
    "tpl/hooks/pre-commit": "rm f",
    "tpl/hooks/post-checkout": "rm f",
}
_REPOSITORY = """
git init -q -b main . && git add f .gitattributes && git commit -q -m one
git init -q --bare ../origin.git && git remote add origin ../origin.git && git push -q -u origin main
git init -q -b main ../s && git -C ../s commit -q --allow-empty -m one
git -c protocol.file.allow=always submodule --quiet add ../s s && git commit -qm sub
git checkout -q -b side && echo x side > f && git commit -qam side && git checkout -q main
echo x main > f && git commit -qam main
git -C s commit -q --allow-empty -m two
git config alias.known push && git config many.repo "$PWD"
git init -q --bare other && git -C other config alias.z '!rm f'
printf '#!/bin/sh\\n%s\\n' ": > '$MARK'" > .git/hooks/pre-push && chmod +x .git/hooks/pre-push
"""


class Planted:
    """A folder with stand-ins, made once; each line runs in a copy of it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._mark = root / "mark"
        self._work = root / "one" / "work"
        self._work.mkdir(parents=True)
        for name, text in _FILES.items():
            (self._work / name).parent.mkdir(parents=True, exist_ok=True)
            (self._work / name).write_text(text)
        for name, text in {**_SCRIPTS, "bin/rm": f": > '{self._mark}'"}.items():
            script = self._work / name
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text(f"#!/bin/sh\n{text}\n")
            script.chmod(0o755)
        (root / "home").mkdir()
        self._shell(_REPOSITORY, check=True)
        self._shell("tar cf x.tar f", check=True)
        self._mark.unlink(missing_ok=True)
        self._pristine = root / "pristine"
        shutil.copytree(root / "one", self._pristine, symlinks=True)

    def fires(self, line: str) -> bool:
        """Whether the line, in a fresh copy, runs `rm`, or pushes."""
        shutil.rmtree(self._root / "one")
        shutil.copytree(self._pristine, self._root / "one", symlinks=True)
        self._mark.unlink(missing_ok=True)
        self._shell(line)
        return self._mark.exists() or not (self._work / "f").exists()

    def _shell(self, line: str, *, check: bool = False) -> None:
        who = {
            f"GIT_{role}_{what}": "x"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        path = f"{self._work / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin"
        environment = {
            "PATH": path,
            "HOME": str(self._root / "home"),
            "TERM": "xterm",
            "FILTER_BRANCH_SQUELCH_WARNING": "1",
            "MARK": str(self._mark),
        } | who
        subprocess.run(
            ["bash", "-c", line],
            cwd=self._work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=check,
        )
