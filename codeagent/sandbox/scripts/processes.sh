# Finds the processes of one call, with bash builtins only: under a fork bomb nothing else could run.
# Each call has a number, kept in two hard limits that the kernel does not use for anything (file locks, resident
# set). Every process it starts inherits them, and without capabilities nobody can raise one: the first falls from
# call to call and the second rises, so no process can take another call's number. One that lowered a limit counts for
# every call it may come from. Relays (see run.sh) are started before the number is taken, so they have none.

LOCKS=$((1 << 60))
RESIDENT=$((1 << 40))

# take_number NUMBER: this shell and all it starts from now on belong to the call; fails where that cannot be.
take_number() {
  ulimit -x "$((LOCKS - $1))" -m "$((RESIDENT + $1))"
}

# now: sets NOW to hundredths of a second since boot.
now() {
  local up
  read -r up _ < /proc/uptime
  NOW=${up/./}
}

OURS=" 1 $$ "

# find_mine NUMBER: sets MINE to the pids of the call, without OURS, and ENTRY to the one the engine started.
find_mine() {
  local number=$1 dir pid line
  local -a limits locks resident fields
  MINE=()
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [[ $OURS == *" $pid "* ]] && continue
    kill -0 "$pid" || continue
    limits=() # found by their place, checked by their name: searching all of it takes twenty times as long
    mapfile -t limits < "$dir/limits"
    resident=(${limits[6]#Max resident set})
    locks=(${limits[11]#Max file locks})
    [[ ${locks[1]:-unlimited} == *[!0-9]* || ${resident[1]:-unlimited} == *[!0-9]* ]] && continue
    ((resident[1] / 1024 - RESIDENT <= number && number <= LOCKS - locks[1])) || continue
    line=
    IFS= read -r -d '' line < "$dir/stat"
    fields=(${line##*) })
    [[ ${#fields[@]} -gt 1 && ${fields[0]} != [ZX] ]] || continue
    MINE+=("$pid")
    [[ ${fields[1]} == 0 ]] && ENTRY=$pid
  done 2> /dev/null
}

# stop_all NUMBER: stops the call: TERM, two seconds, KILL; sets STOPPED to `KILLED LEFT ALL`. The command that the
# engine started is not counted. Standard input stays open and silent: reading it with a limit is a sleep without a
# process.
stop_all() {
  local end all=0
  local -A seen=()
  ENTRY=
  now
  end=$((NOW + 200))
  while end_politely "$1"; [[ ${#MINE[@]} -gt 0 && $NOW -lt $end ]]; do
    read -r -t 0.003
    now
  done
  end=$((NOW + 100))
  while [[ ${#MINE[@]} -gt 0 && $NOW -lt $end ]]; do
    kill -KILL "${MINE[@]}" 2> /dev/null
    read -r -t 0.003
    end_politely "$1"
    now
  done
  if [[ ${#MINE[@]} -gt 0 ]]; then
    kill -KILL -1 2> /dev/null
    all=1
    end=$((NOW + 100))
    while end_politely "$1"; [[ ${#MINE[@]} -gt 0 && $NOW -lt $end ]]; do
      read -r -t 0.003
      now
    done
  fi
  [[ -n $ENTRY ]] && unset "seen[$ENTRY]"
  STOPPED="${#seen[@]} ${#MINE[@]} $all"
}

# end_politely NUMBER: sends TERM to the processes of the call that are not in `seen` yet, and adds them to it.
end_politely() {
  local pid
  find_mine "$1"
  for pid in "${MINE[@]}"; do
    [[ -n ${seen[$pid]:-} ]] && continue
    seen[$pid]=1
    kill -TERM "$pid" 2> /dev/null
    kill -CONT "$pid" 2> /dev/null
  done
}
