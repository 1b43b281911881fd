# Runs one command and says, on standard error behind a NUL and the mark, how it ended.
# $1 mark  $2 other calls' marks  $3 alone  $4 `text` or `input`  $5 the command, or its length in bytes on stdin

exec 3>&2 2> /dev/null
now
since=$NOW

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
if [[ $4 == text ]]; then
  bash -c "$5" 2>&3 3>&- < /dev/null
  code=$?
else
  script=/tmp/.command-$1
  if head -c "$5" > "$script"; then
    bash "$script" 2>&3 3>&- < /dev/null
    code=$?
  else
    printf 'the script of %d bytes does not fit into /tmp\n' "$5" >&3
    code=126
  fi
  rm -f "$script"
fi
oom_kills
SESSION=$$
find_mine "$1" "$2" "$3" "$since"
printf '\0%s %d %d\n' "$1" "${#MINE[@]}" "$((OOM > before))" >&3
exit "$code"
