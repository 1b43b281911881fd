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

# find_mine NUMBER: sets MINE to the pids of the call, without this shell, and ENTRY to the one the engine started.
find_mine() {
  local number=$1 dir pid line locks
  local -a fields
  MINE=()
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [[ $pid == 1 || $pid == "$$" ]] && continue
    kill -0 "$pid" 2> /dev/null || continue
    line=
    { IFS= read -r -d '' line < "$dir/limits"; } 2> /dev/null
    fields=(${line##*Max file locks})
    locks=${fields[1]:-unlimited}
    fields=(${line##*Max resident set})
    [[ $locks == unlimited || ${fields[1]} == unlimited ]] && continue
    ((fields[1] / 1024 - RESIDENT <= number && number <= LOCKS - locks)) || continue
    line=
    { IFS= read -r -d '' line < "$dir/stat"; } 2> /dev/null
    fields=(${line##*) })
    [[ ${#fields[@]} -gt 1 && ${fields[0]} != [ZX] ]] || continue
    MINE+=("$pid")
    [[ ${fields[1]} == 0 ]] && ENTRY=$pid
  done 2> /dev/null
}
