# Finds the processes of one call, with bash builtins only: under a fork bomb nothing else could run.
# A call's processes carry its mark in CODEAGENT_CALL; those that dropped it are told by session,
# parent and age. Relays (see run.sh) are nobody's: they end with what writes to them. Ticks are hundredths of a second since boot, as in /proc/PID/stat.

now() {
  local up
  read -r up _ < /proc/uptime
  NOW=${up/./}
}

# find_mine MARK OTHERS ALONE SINCE: sets MINE to the pids of the call MARK.
# OTHERS: marks of other calls, each with a space around it. ALONE: 1 where no other call runs.
# SINCE: ticks; unmarked orphans that are younger count as this call's while it is alone.
find_mine() {
  local mark=$1 others=$2 alone=$3 since=$4 dir pid line word fields value again
  local -A parent=() of=()
  MINE=()
  local -A in=()
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [[ $pid == 1 || $pid == "$$" ]] && continue
    kill -0 "$pid" 2> /dev/null || continue
    line=
    { IFS= read -r -d '' line < "$dir/stat"; } 2> /dev/null
    line=${line##*) }
    read -r -a fields <<< "$line"
    [[ ${#fields[@]} -gt 19 && ${fields[0]} != [ZX] ]] || continue
    value=
    while IFS= read -r -d '' word; do
      [[ $word == CODEAGENT_CALL=* ]] && value=${word#*=} && break
    done 2> /dev/null < "$dir/environ"
    [[ $value == */relay ]] && continue
    of[$pid]=$value
    parent[$pid]=${fields[1]}
    if [[ $value == "$mark" ]]; then
      in[$pid]=1
    elif [[ -n $value && $others == *" $value "* ]]; then
      continue
    elif [[ -n ${SESSION:-} && ${fields[3]} == "$SESSION" ]]; then
      in[$pid]=1
    elif [[ $alone == 1 && ${fields[1]} -le 1 && ${fields[19]} -ge $since ]]; then
      in[$pid]=1
    fi
  done 2> /dev/null
  again=1
  while [[ $again == 1 ]]; do
    again=0
    for pid in "${!parent[@]}"; do
      [[ -n ${in[$pid]:-} || -z ${in[${parent[$pid]}]:-} ]] && continue
      [[ -n ${of[$pid]} && $others == *" ${of[$pid]} "* ]] && continue
      in[$pid]=1
      again=1
    done
  done
  for pid in "${!in[@]}"; do
    MINE+=("$pid")
    [[ ${parent[$pid]} == 0 ]] && ENTRY=$pid
  done
}
