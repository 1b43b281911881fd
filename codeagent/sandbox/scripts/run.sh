# Runs one command; says, behind a NUL and the mark, that it begins, and how it ended at the end of both streams.
# $1 mark  $2 the call's number  $3 `text` or `input`  $4 the command, or its length in bytes on stdin
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

oom_kills
before=$OOM
exec 5> >(exec cat 3>&- 4<&-)
out=$!
exec 6> >(exec cat >&3 3>&- 4<&- 5>&-)
err=$!
take_number "$2" || exit 126
printf '\0%s begun\n' "$1" >&3
if [[ $3 == text ]]; then
  bash -c "$4" >&5 2>&6 3>&- 4<&- 5>&- 6>&- < /dev/null
  code=$?
else
  script=/tmp/.command-$1
  if head -c "$4" > "$script" <&4; then
    bash "$script" >&5 2>&6 3>&- 4<&- 5>&- 6>&- < /dev/null
    code=$?
  else
    printf 'the script of %d bytes does not fit into /tmp\n' "$4" >&6
    code=126
  fi
  rm -f "$script"
fi
oom_kills
find_mine "$2"
printf '\0%s \n' "$1" >&5
printf '\0%s %d %d\n' "$1" "${#MINE[@]}" "$((OOM > before))" >&6
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
