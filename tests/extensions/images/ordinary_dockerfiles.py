"""Ordinary Dockerfiles, whose `BASE` is an image on this machine, and the files that they may
copy."""

import gzip
import io
import tarfile


def archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in (("packed/one", b"1"), ("packed/two", b"22")):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


FILES = {
    "a.txt": b"a\n",
    "b.txt": b"b\n",
    "two words.txt": b"2\n",
    "dollar$.txt": b"$\n",
    "folder/c.txt": b"c\n",
    "folder/below/d.py": b"d\n",
    "packed.tar": archive(),
    "packed.tgz": gzip.compress(archive(), mtime=0),
    "left.out": b"no\n",
    ".dockerignore": b"# no\n*.out\nwas-there\nDockerfile\n",
}
ORDINARY = (
    "FROM BASE\n",
    'FROM scratch\nCOPY a.txt /a\nENV A=1\nCMD ["/a"]\n',
    "FROM BASE\nRUN echo one && echo 'two  three' > /x \\\n    && echo \"$PATH\" >> /x; # comment\n",
    "FROM BASE\nRUN echo a\\\\nb \\\n# comment\n  c\\\nd > /x\n",
    'FROM BASE\nRUN ["/bin/sh", "-c", "echo \\"é\\" \'<x>\' \\\\ > /x"]\n',
    "FROM BASE\nRUN echo 'ä € 🙂 \u00a0' > /x\n",
    "FROM BASE\nRUN cat <a.txt >/x 2>&1 || echo $((1<<3)) > /x\n",
    "FROM BASE\nENV A=1 B='two words' C=\"three $A\" D=four\\ words E=\nRUN env > /x\n",
    'FROM BASE\nENV A old form with  spaces and "quotes"\nENV B $A \\"x\\" \\$A\nRUN env > /x\n',
    "FROM BASE\nENV A=x\nENV A=y B=$A\nENV C=${A}z D=${N:-none} E=${A:+some} F=${N:+some}\nRUN env > /x\n",
    "FROM BASE\nENV A=x\nENV B=${N:-${A:-b}} C=\"${N:-$A b}\" D='${A}'\nRUN env > /x\n",
    "FROM BASE\nENV PATH=/more:$PATH\nENV P='$PATH' Q=\\$PATH R=\"\\$PATH\"\nRUN env > /x\n",
    'FROM BASE\nENV S=\'a"b\' T="a\'b" U="a\\\\b" V=a\\\\b W="a\\b" X="\\""\nRUN env > /x\n',
    "FROM scratch\nENV PATH=/more:$PATH\n",
    "FROM BASE\nENV A=cost$ B=a=b=c C=~/x D=#x E=a;b\nRUN env > /x\n",
    "ARG V=1\nFROM BASE\nARG V\nARG W=$V\nARG X=w\\ x Y\nRUN echo $V $W $X $Y > /x\nENV A=$W\n",
    "ARG IMAGE=BASE\nARG N=${IMAGE}\nFROM ${N} AS made\nRUN echo > /x\n",
    "FROM BASE\nARG GIVEN=default\nARG OTHER\nRUN echo $GIVEN $OTHER > /x\nENV A=${GIVEN} B=${OTHER:-none}\n",
    "FROM BASE\nENV GIVEN=mine\nARG GIVEN\nRUN echo $GIVEN > /x\nENV A=$GIVEN\n",
    "FROM BASE AS Build\nENV A=1\nRUN mkdir /made && echo $A > /made/x\nFROM BASE\nCOPY --from=build /made /made\n",
    "FROM BASE AS one\nRUN echo 1 > /1\nFROM one AS two\nRUN echo 2 > /2\n"
    "FROM scratch\nCOPY --from=0 /1 /\nCOPY --from=two /2 /1 /x/\n",
    "FROM BASE\nCOPY --from=BASE /bin/cat /tool/cat\n",
    'FROM BASE AS a\nSHELL ["/bin/bash", "-ec"]\nENV A=1\nRUN mkdir -m 777 /w\nWORKDIR /w\nUSER 5:5\nLABEL a=1\n'
    "FROM a\nRUN echo ${BASH_VERSION:0:1} $A > x\n",
    'FROM BASE\nSHELL ["/bin/bash", "-c"]\nRUN echo {a,b} > /x\nCMD echo {a,b}\nENTRYPOINT exec x\n',
    "FROM BASE\nWORKDIR /a\nWORKDIR b/c\nENV D=/e\nWORKDIR $D/f\nWORKDIR g h\nRUN echo > x\nCOPY a.txt .\n",
    "FROM BASE\nRUN mkdir /home/x\nUSER 1000:1000\nENV U=7\nUSER $U\nCOPY a.txt /a\n",
    "FROM BASE\nHEALTHCHECK --interval=5s --timeout=1m --retries=2 CMD cat /x || exit 1\n",
    'FROM BASE\nHEALTHCHECK CMD ["cat", "/x"]\n',
    "FROM BASE\nHEALTHCHECK NONE\nSTOPSIGNAL SIGINT\nMAINTAINER Some One <one@example.org>\n",
    "FROM BASE\nLABEL a=b org.example.title=\"two words\" c='it''s'\nLABEL old form of it\n"
    'ENV V=1\nLABEL v=$V d="${V}0"\n',
    'FROM BASE\nEXPOSE 80 443/tcp 53/udp\nENV P="8080 8081"\nEXPOSE $P\nEXPOSE 9000-9002\n',
    'FROM BASE\nVOLUME /data /more\nVOLUME ["/a b", "/c"]\nENV V=/v\nVOLUME $V\n',
    "FROM BASE\nCMD run it --now\n",
    'FROM BASE\nCMD ["run", "it"]\nENTRYPOINT ["/x", "$A", "a\\\\b"]\n',
    "FROM BASE\nENTRYPOINT []\nCMD []\n",
    "FROM BASE\nCOPY . /app/\n",
    "FROM BASE\nCOPY *.txt folder /app/\n",
    'FROM BASE\nCOPY ["two words.txt", "dollar\\\\$.txt", "/with words/"]\n',
    "FROM BASE\nENV F=folder N=a\nCOPY $F/below /x\nCOPY ${N}.txt ./b.??t /y/\n",
    "FROM BASE\nCOPY --chown=1000:1000 folder /x\nARG O=5\nCOPY --chown=$O:6 a.txt /y\n",
    "FROM BASE\nADD a.txt /x\nADD folder /y\nADD packed.tar /z\nADD packed.tgz /new/z/\n",
    'FROM BASE\nADD --chown=5:5 *.txt ./packed.* /x/\nADD ["two words.txt", "/y"]\n',
    "FROM BASE\nWORKDIR /w\nADD /packed.tar .\nADD . all\n",
    "# escape=`\nFROM BASE\nENV A=C:\\x B=a` b\nRUN echo a`\n b\\c > /x\nCOPY a.txt `\n /y\n",
    "\ufeff# syntax=docker/dockerfile:1\r\nfrom BASE\r\nrun echo 1 > /x\r\n\r\nRun echo 2 \\\r\n  3 > /y\r\n",
    "FROM --platform=linux/amd64 BASE\n\tRUN\techo\t1 > /x\n   ENV\tA=1\tB=2\n",
    "FROM BASE\nARG A=1 B=2\nRUN echo $A$B > /x\n# the end \\",
    "FROM BASE\nRUN set -e; for each in a b; do \\\n      echo $each >> /x; \\\n\n    done\n",
)
