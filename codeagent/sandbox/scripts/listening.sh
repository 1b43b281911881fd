# Prints the TCP ports that are listened on, in hexadecimal, one a line. Bash builtins only: under load nothing else starts.

for table in /proc/net/tcp /proc/net/tcp6; do
  [[ -r $table ]] || continue
  while read -r _ address _ state _; do
    [[ $state == 0A ]] && printf '%s\n' "${address##*:}"
  done < "$table"
done
printf 'done\n'
