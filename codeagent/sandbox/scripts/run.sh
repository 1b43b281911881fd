# Waits for one command, runs it, and says on standard error, behind a NUL and the call's mark, that it begins; how it
# ended is said at the end of both streams, in the same words.
#
# $1 PATH of the command; empty: as it is. What runs here comes from folders that commands cannot write to.
#
# Standard input has lines from the host. An empty one asks whether the wrapper waits, which `waiting` answers; it says
# so by itself, too, once all its own processes run. `MARK NUMBER KIND LENGTH STREAMS` gives the command: the mark and
# number of the call, `text` for a command that goes to bash as an argument or `file` for one that bash reads from a
# file, its length in bytes, and `apart` for a standard error of its own or `together` for one that is the standard
# output; then come those bytes. During the command the line `stop` stops it.
#
# The command writes to relays, not to the engine: what it leaves running keeps their pipes, so the
# engine sees its streams end and the child never finds a closed pipe. Before the relays are taken
# away the host says, with a line on stdin, that it has everything that was written until the end.

exec 3>&2 4<&0 2> /dev/null

oom_kills() {
  local name count file
  OOM=0
  for file in /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events; do
    [[ -r $file ]] || continue
    while read -r name count; do [[ $name == oom_kill ]] && OOM=$count; done < "$file"
  done
}

# Gets the call's mark and number on its standard input, once the command has been read from the host. The wrapper waits
# until all is over: when it ends, the engine soon closes the streams, and the report would be lost.
stop_when_told() {
  local call
  read -r -a call && take_number "${call[1]}" || exit
  OURS+="$BASHPID "
  while [[ $REPLY != stop ]]; do read -r -u 4 || exit; done
  kill -STOP "$$"
  printf '\0%s stopping\n' "${call[0]}" >&3
  stop_all "${call[1]}" <&4
  printf '\0%s stopped %s\n' "${call[0]}" "$STOPPED" >&3
  kill -KILL "$$"
}

exec 7> >(stop_when_told > /dev/null)
stopper=$!
OURS+="$stopper "
exec 5> >(exec cat 3>&- 4<&- 7>&-)
out=$!
exec 6> >(exec cat >&3 3>&- 4<&- 5>&- 7>&-)
err=$!
oom_kills
before=$OOM
while printf 'waiting\n' >&3; do
  read -r -u 4 || exit
  [[ -n $REPLY ]] && break
done
COMMANDS_PATH=$1
set -- $REPLY
[[ $5 == apart ]] && errors=6 || errors=5
if [[ $3 == text ]]; then
  LC_ALL=C read -r -N "$4" -u 4 || exit
  set -- "$1" "$2" -c "$REPLY"
else
  # All of it is read even if /tmp is full: the host could not send the rest, which would be taken for orders, too.
  head -c "$4" <&4 | { cat > "/tmp/.command-$1"; cat > /dev/null; }
  (($(wc -c < "/tmp/.command-$1") == $4)) && set -- "$1" "$2" "/tmp/.command-$1"
fi
printf '%s %d\n' "$1" "$2" >&7
take_number "$2" || exit 126
printf '\0%s begun\n' "$1" >&3
if [[ $3 == file ]]; then
  printf 'the script of %d bytes does not fit into /tmp\n' "$4" >&"$errors"
  code=126
else
  PATH=${COMMANDS_PATH:-$PATH} bash "${@:3}" >&5 2>&"$errors" 3>&- 4<&- 5>&- 6>&- 7>&- < /dev/null
  code=$?
fi
[[ $3 == -c ]] || rm -f "/tmp/.command-$1"
oom_kills
find_mine "$2"
kill -KILL "$stopper"
wait "$stopper" # a line that comes while it is dying would still be read by it
exec 7>&-
for stream in 5 6; do
  printf '\0%s %d %d %d\n' "$1" "${#MINE[@]}" "$((OOM > before))" "$code" >&"$stream"
done
if [[ ${#MINE[@]} -gt 0 ]]; then
  exec 7< /proc/self/fd/5 8< /proc/self/fd/6 5>&- 6>&-
  read -r -u 4
  setsid cat <&7 > /dev/null 3>&- 4<&- 7<&- 8<&- &
  setsid cat <&8 > /dev/null 3>&- 4<&- 7<&- 8<&- &
  kill "$out" "$err"
else
  exec 5>&- 6>&-
  wait "$out" "$err"
fi
exit "$code"
