# Stops everything a call started, from outside the call; prints what `stop_all` says.
# $1 the call's number

stop_all "$1"
printf '%s\n' "$STOPPED"
