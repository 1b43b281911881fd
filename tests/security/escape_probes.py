"""Attempts to get out of the container, each a script that prints BREACH where it succeeds.

Placeholders: OUTSIDE a directory beside the workspace with a canary in it, HOSTPORT a port that
listens on every address of the host, HOSTSHADOW the digest of its passwords, STATE the sandbox's
files.
"""


def py(code: str) -> str:
    """A Python probe; an exception means that it was stopped."""
    return f"python3 - 2>/dev/null <<'END'\nimport ctypes, os, socket, stat\n{code}\nEND"


def syscall(number: int, *arguments: str) -> str:
    """Breaches where the kernel does anything but refuse; x86-64 numbers, others skip by
    machine."""
    call = ", ".join((str(number), *arguments))
    return py(
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"result = libc.syscall({call})\n"
        "if os.uname().machine == 'x86_64' and (result >= 0 or ctypes.get_errno() not in (1, 13, 38)): print('BREACH')"
    )


def connect(address: str, port: str, family: str = "AF_INET", kind: str = "SOCK_STREAM") -> str:
    return py(
        f"s = socket.socket(socket.{family}, socket.{kind}); s.settimeout(1)\n"
        f"s.connect(({address!r}, {port})); s.send(b'x'); print('BREACH')"
    )


GIT = {
    "a hook is planted": "echo 'touch /tmp/p' > .git/hooks/post-checkout && echo BREACH",
    "fsmonitor is configured": "git config core.fsmonitor ./evil 2>/dev/null && echo BREACH",
    "config is appended to": "(echo '[alias]' >> .git/config) 2>/dev/null && echo BREACH",
    "config is truncated": py("os.truncate('.git/config', 0); print('BREACH')"),
    "config is mapped and written": py(
        "import mmap\nf = open('.git/config', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'x'; print('BREACH')"
    ),
    "commondir is planted": "(echo ../evil > .git/commondir) 2>/dev/null && echo BREACH",
    "attributes are planted": (
        "(mkdir -p .git/info && echo '* filter=x' > .git/info/attributes) 2>/dev/null && echo BREACH"
    ),
    ".git is renamed": "mv .git moved 2>/dev/null && echo BREACH",
    ".git is exchanged": py(
        "os.mkdir('other')\nlibc = ctypes.CDLL(None)\n"
        "if libc.renameat2(-100, b'.git', -100, b'other', 2) == 0: print('BREACH')"
    ),
    ".git is removed": "rm -rf .git 2>/dev/null; [ -e .git/HEAD ] || echo BREACH",
    ".git is overmounted": "mount -t tmpfs none .git 2>/dev/null && echo BREACH",
    ".git is unmounted": "umount -l .git 2>/dev/null && echo BREACH",
    ".git is remounted": "mount -o remount,rw,bind .git 2>/dev/null && echo BREACH",
    "the index is written": "touch n1 && git add n1 2>/dev/null && echo BREACH",
    "a commit is made": "git -c user.name=x -c user.email=x commit --allow-empty -qm x 2>/dev/null && echo BREACH",
    "a file is moved into .git": "touch n2 && mv n2 .git/ 2>/dev/null && echo BREACH",
    "a file is linked into .git": "touch n3 && ln n3 .git/n3 2>/dev/null && echo BREACH",
    "a file of .git is linked out": "ln .git/config out 2>/dev/null && echo BREACH",
    ".git is written through /proc/self/cwd": "(echo x > /proc/self/cwd/.git/n4) 2>/dev/null && echo BREACH",
    ".git is written through a descriptor": "exec 7< .git; (echo x > /proc/self/fd/7/n5) 2>/dev/null && echo BREACH",
    ".git is written through a link": "ln -s .git l1; (echo x > l1/n6) 2>/dev/null && echo BREACH",
    ".git changes its mode": "chmod 700 .git 2>/dev/null && echo BREACH",
    ".git changes its time": "touch .git/HEAD 2>/dev/null && echo BREACH",
    "agent configuration is written": "(echo x > .codeagent/config.toml) 2>/dev/null && echo BREACH",
    "agent configuration is renamed": "mv .codeagent gone 2>/dev/null && echo BREACH",
    "the workspace itself is renamed": 'mv "$PWD" "$PWD-x" 2>/dev/null && echo BREACH',
}
SECRETS = {
    "a secret is in some environment": (
        "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q CANARY && echo BREACH"
    ),
    "the keeper's environment is read": "cat /proc/1/environ > /dev/null 2>&1 && echo BREACH",
    "a masked file is read": "grep -q CANARY .env && echo BREACH",
    "a masked key is read": "grep -rq CANARY-KEY deploy && echo BREACH",
    "a mask is removed": "rm -f .env 2>/dev/null && echo BREACH",
    "a mask is renamed": "mv .env env 2>/dev/null && echo BREACH",
    "a mask is unmounted": "umount .env 2>/dev/null && grep -q CANARY .env && echo BREACH",
    "a neighbour is read by path": "cat OUTSIDE/canary 2>/dev/null | grep -q . && echo BREACH",
    "a neighbour is read over a link": "ln -s OUTSIDE l2; cat l2/canary 2>/dev/null | grep -q . && echo BREACH",
    "a neighbour is listed": 'ls .. | grep -qv "^$(basename "$PWD")$" && echo BREACH',
    "a neighbour is written": "(echo x > OUTSIDE/canary) 2>/dev/null && echo BREACH",
    "the sandbox's state is listed": "ls STATE 2>/dev/null | grep -q . && echo BREACH",
    "the host's passwords are read": "sha256sum /etc/shadow 2>/dev/null | grep -q HOSTSHADOW && echo BREACH",
    "the host's users are listed": "[ $(wc -l < /etc/passwd) -gt 3 ] && echo BREACH",
    "the host's key files are read": (
        "find /etc/ssh /root/.ssh /etc/ssl/private -type f 2>/dev/null | grep -q . && echo BREACH"
    ),
    "docker's configuration is read": (
        "cat /root/.docker/config.json ~/.docker/config.json 2>/dev/null | grep -q . && echo BREACH"
    ),
    "the host's name servers are known": "grep -q '^nameserver [1-9]' /etc/resolv.conf 2>/dev/null && echo BREACH",
    "a socket of the engine is there": (
        "ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null | grep -q . && echo BREACH"
    ),
    "any socket is reachable": "find / -path /proc -prune -o -type s -print 2>/dev/null | grep -q . && echo BREACH",
    "the host's shared memory is seen": "ls /dev/shm | grep -q canary && echo BREACH",
    "the host's processes are seen": (
        "grep -lz 'CANARY[-]PROCESS' /proc/[0-9]*/cmdline 2>/dev/null | grep -q . && echo BREACH"
    ),
    "the host's root is seen through init": "ls /proc/1/root/ 2>/dev/null | grep -q . && echo BREACH",
}
KERNEL = {
    "a device is made": "mknod /tmp/d b 8 0 2>/dev/null && echo BREACH",
    "a device is made in the workspace": "mknod d c 1 1 2>/dev/null && echo BREACH",
    "memory is read": "head -c1 /dev/mem 2>/dev/null | grep -q . && echo BREACH",
    "the kernel's log is read": "dmesg 2>/dev/null | grep -q . && echo BREACH",
    "a disk is read": "cat /dev/[svn][dv]* 2>/dev/null | head -c1 | grep -q . && echo BREACH",
    "a raw socket is opened": py(
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('BREACH')"
    ),
    "a packet socket is opened": py(
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print('BREACH')"
    ),
    "another user is taken": py("os.setuid(1 if os.getuid() != 1 else 2); print('BREACH')"),
    "another group is taken": py("os.setgroups([0, 1]); print('BREACH')"),
    "chroot is entered": py("os.mkdir('/tmp/c1'); os.chroot('/tmp/c1'); print('BREACH')"),
    "a user namespace is made": "unshare -U true 2>/dev/null && echo BREACH",
    "a mount namespace is made": "unshare -m true 2>/dev/null && echo BREACH",
    "a network namespace is made": "unshare -n true 2>/dev/null && echo BREACH",
    "init's namespaces are entered": "nsenter -t 1 -a true 2>/dev/null && echo BREACH",
    "proc is mounted": "mkdir -p /tmp/m1; mount -t proc none /tmp/m1 2>/dev/null && echo BREACH",
    "cgroups are mounted": "mkdir -p /tmp/m2; mount -t cgroup -o memory none /tmp/m2 2>/dev/null && echo BREACH",
    "a cgroup is made": (
        "for d in /sys/fs/cgroup /sys/fs/cgroup/memory; do mkdir $d/evil 2>/dev/null && echo BREACH; done"
    ),
    "a limit is lifted": (
        "for f in /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max; do (echo max > $f) 2>/dev/null "
        "&& echo BREACH; done"
    ),
    "hard limits are raised": "ulimit -Hn 1000000 2>/dev/null && echo BREACH",
    "the core pattern is set": "(echo x > /proc/sys/kernel/core_pattern) 2>/dev/null && echo BREACH",
    "sysrq is triggered": "(echo h > /proc/sysrq-trigger) 2>/dev/null && echo BREACH",
    "sysfs is written": "(echo x > /sys/power/state) 2>/dev/null && echo BREACH",
    "init is killed": (
        'kill -9 1 2>/dev/null; for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = cat ] && '
        "kill -9 ${p#/proc/} 2>/dev/null && echo BREACH; done"
    ),
    "init's memory is read": "head -c1 /proc/1/mem 2>/dev/null | grep -q . && echo BREACH",
    "init is traced": py(
        "libc = ctypes.CDLL(None)\nif libc.ptrace(16, 1, 0, 0) == 0: print('BREACH')"
    ),
    "bpf is used": syscall(321, "0", "None", "0"),
    "performance events are opened": syscall(
        298, "ctypes.create_string_buffer(128)", "0", "-1", "-1", "0"
    ),
    "keys are added": syscall(248, "b'user'", "b'x'", "b'y'", "1", "-3"),
    "io_uring is set up": syscall(425, "1", "ctypes.create_string_buffer(256)"),
    "user faults are handled": syscall(323, "0"),
    "a file handle is opened": syscall(304, "-100", "ctypes.create_string_buffer(128)", "0"),
    "a module is loaded": syscall(175, "b''", "0", "b''"),
    "the clock is set": syscall(227, "0", "ctypes.create_string_buffer(16)"),
    "the host name is set": syscall(170, "b'evil'", "4"),
    "the clock is slewed": syscall(159, "ctypes.create_string_buffer(b'\\xff' * 256)"),
    "swap is turned on": syscall(167, "b'/tmp/none'", "0"),
    "the machine is restarted": syscall(169, "0", "0", "0", "0"),
    "another kernel is loaded": syscall(246, "0", "0", "None", "0"),
    "a tree of mounts is copied": syscall(428, "-100", "b'/'", "1"),
    "a mount is moved": syscall(429, "-100", "b'/tmp'", "-100", "b'/mnt'", "0"),
    "a file system is opened": syscall(430, "b'tmpfs'", "0"),
    "mounts are made writable": syscall(
        442, "-100", "b'/'", "0", "ctypes.create_string_buffer(32)", "32"
    ),
    "every file is watched": syscall(300, "0", "0"),
    "a namespace is joined": syscall(308, "0", "0"),
    "data is made executable": syscall(135, "0x0400000"),
    "a descriptor of init is taken": py(
        "libc = ctypes.CDLL(None)\nif libc.syscall(438, libc.syscall(434, 1, 0), 0, 0) >= 0: print('BREACH')"
    ),
    "a real-time priority is taken": py(
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)); print('BREACH')"
    ),
    "others have to wait": py("os.nice(-5); print('BREACH')"),
    "the kernel is asked to kill others first": "(echo -1000 > /proc/self/oom_score_adj) 2>/dev/null && echo BREACH",
    "the kernel's memory is read": "head -c1 /proc/kcore 2>/dev/null | grep -q . && echo BREACH",
    "keys of the kernel are listed": "cat /proc/keys 2>/dev/null | grep -q . && echo BREACH",
    "the firmware is seen": "ls /sys/firmware 2>/dev/null | grep -q . && echo BREACH",
    "AF_VSOCK reaches the hypervisor": py("socket.socket(40, socket.SOCK_STREAM); print('BREACH')"),
}
FILES = {
    "a file changes its owner": "touch f1; chown 12345 f1 2>/dev/null && echo BREACH",
    "chmod sets set-uid": "cp /usr/bin/env f2; chmod 4755 f2 2>/dev/null; [ -u f2 ] && echo BREACH",
    "chmod sets set-gid": "touch f3; chmod g+s f3 2>/dev/null; [ -g f3 ] && echo BREACH",
    "a directory gets set-gid": "mkdir f4; chmod 2775 f4 2>/dev/null; [ -g f4 ] && echo BREACH",
    "open creates set-uid": py(
        "os.open('f5', os.O_CREAT | os.O_WRONLY, 0o4755)\nif os.stat('f5').st_mode & 0o6000: print('BREACH')"
    ),
    "fchmod sets set-uid": py(
        "f = os.open('f6', os.O_CREAT | os.O_WRONLY, 0o755); os.fchmod(f, 0o4755); print('BREACH')"
    ),
    "mknod creates set-uid": py(
        "os.mknod('f7', stat.S_IFREG | 0o4755)\nif os.stat('f7').st_mode & 0o6000: print('BREACH')"
    ),
    "openat2 creates set-uid": py(
        "how = (ctypes.c_uint64 * 3)(0o101, 0o4755, 0); libc = ctypes.CDLL(None)\n"
        "if libc.syscall(437, -100, b'f8', how, 24) >= 0 and os.stat('f8').st_mode & 0o6000: print('BREACH')"
    ),
    "fchmodat2 sets set-uid": py(
        "open('f9', 'w').close(); libc = ctypes.CDLL(None); libc.syscall(452, -100, b'f9', 0o4755, 0)\n"
        "if os.stat('f9').st_mode & 0o6000: print('BREACH')"
    ),
    "a file gets capabilities": "cp /usr/bin/env f10; setcap cap_net_raw+ep f10 2>/dev/null && echo BREACH",
    "the root directory is written": "touch /evil 2>/dev/null && echo BREACH",
    "/usr is written": "touch /usr/evil /usr/bin/evil 2>/dev/null && echo BREACH",
    "/etc is written": "touch /etc/evil 2>/dev/null && echo BREACH",
    "a user is added": "(echo 'evil::0:0::/:/bin/sh' >> /etc/passwd) 2>/dev/null && echo BREACH",
    "init's binary is replaced": "(echo x > /sbin/docker-init) 2>/dev/null && echo BREACH",
    "a set-uid program of the image helps": (
        "su -c 'id -u' 2>/dev/null < /dev/null | grep -q '^0$' && [ $(id -u) != 0 ] && echo BREACH"
    ),
    "/tmp outgrows its size": "dd if=/dev/zero of=/tmp/big bs=1M count=80 2>/dev/null && echo BREACH; rm -f /tmp/big",
    "home outgrows its size": "dd if=/dev/zero of=~/big bs=1M count=80 2>/dev/null && echo BREACH; rm -f ~/big",
}
NETWORK = {
    "there is another interface": "grep -v -e lo: -e '|' /proc/net/dev | grep -q . && echo BREACH",
    "a route leads out": "grep -qv Iface /proc/net/route && echo BREACH",
    "the metadata service answers": connect("169.254.169.254", "80"),
    "the bridge answers": connect("172.17.0.1", "HOSTPORT"),
    "the host answers on loopback": connect("127.0.0.1", "HOSTPORT"),
    "the host answers on IPv6": connect("::1", "HOSTPORT", "AF_INET6"),
    "a name server answers": connect("1.1.1.1", "53", kind="SOCK_DGRAM"),
    "a name is resolved": "getent hosts example.org > /dev/null 2>&1 && echo BREACH",
    "bash connects by itself": "(exec 9<> /dev/tcp/1.1.1.1/53) 2>/dev/null && echo BREACH",
    "an abstract socket of the host answers": py(
        "s = socket.socket(socket.AF_UNIX); s.connect('\\0codeagent-canary-HOSTPORT'); print('BREACH')"
    ),
}
PROBES = GIT | SECRETS | KERNEL | FILES | NETWORK
ALONE = "init is killed"
"""What it kills carries its own output, so no other probe is run beside it."""

FIRES_IN_AN_ORDINARY_CONTAINER = frozenset(
    {
        ".git changes its mode",
        ".git changes its time",
        ".git is exchanged",
        ".git is removed",
        ".git is renamed",
        ".git is written through /proc/self/cwd",
        ".git is written through a descriptor",
        ".git is written through a link",
        "/etc is written",
        "/tmp outgrows its size",
        "a commit is made",
        "a device is made",
        "a device is made in the workspace",
        "a directory gets set-gid",
        "a file changes its owner",
        "a file is linked into .git",
        "a file is moved into .git",
        "a file of .git is linked out",
        "a hook is planted",
        "a mask is removed",
        "a mask is renamed",
        "a masked file is read",
        "a masked key is read",
        "a packet socket is opened",
        "a raw socket is opened",
        "a secret is in some environment",
        "a user is added",
        "agent configuration is renamed",
        "agent configuration is written",
        "another group is taken",
        "another user is taken",
        "attributes are planted",
        "chmod sets set-gid",
        "chmod sets set-uid",
        "chroot is entered",
        "commondir is planted",
        "config is appended to",
        "config is truncated",
        "fchmod sets set-uid",
        "fsmonitor is configured",
        "home outgrows its size",
        "mknod creates set-uid",
        "open creates set-uid",
        "the host's root is seen through init",
        "the index is written",
        "the keeper's environment is read",
        "the root directory is written",
    }
)
"""Seen to print BREACH without the profile, whatever kernel and engine: these scripts can tell."""
