# Stops everything a call started: TERM, two seconds, KILL. Prints `KILLED LEFT ALL`.
# $1 the call's number
# Standard input stays open and silent: reading it with a time limit is a sleep that needs no process.

declare -A seen=()
ENTRY=
all=0

note() {
  local pid
  find_mine "$1"
  for pid in "${MINE[@]}"; do
    [[ -n ${seen[$pid]:-} ]] && continue
    seen[$pid]=1
    kill -TERM "$pid" 2> /dev/null
    kill -CONT "$pid" 2> /dev/null
  done
}

now
end=$((NOW + 200))
while note "$@"; [[ ${#MINE[@]} -gt 0 && $NOW -lt $end ]]; do
  read -r -t 0.01
  now
done
end=$((NOW + 100))
while [[ ${#MINE[@]} -gt 0 && $NOW -lt $end ]]; do
  kill -KILL "${MINE[@]}" 2> /dev/null
  read -r -t 0.01
  note "$@"
  now
done
if [[ ${#MINE[@]} -gt 0 ]]; then
  kill -KILL -1 2> /dev/null
  all=1
  end=$((NOW + 100))
  while note "$@"; [[ ${#MINE[@]} -gt 0 && $NOW -lt $end ]]; do
    read -r -t 0.01
    now
  done
fi
[[ -n $ENTRY ]] && unset "seen[$ENTRY]"
printf '%d %d %d\n' "${#seen[@]}" "${#MINE[@]}" "$all"
