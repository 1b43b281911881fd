# The self-test: prints one `name=value` per line; the host judges them.
# $1 nonce file  $2 answer file, or empty where the workspace is read-only  $3… protected names

status() {
  local key value
  while read -r key value; do
    case $key in
      CapEff: | CapBnd: | NoNewPrivs: | Seccomp:) printf '%s=%s\n' "${key%:}" "$value" ;;
    esac
  done < /proc/self/status
}

interfaces() {
  local name
  while IFS=': ' read -r name _; do
    [[ $name == Inter-* || $name == face ]] || printf 'interface=%s\n' "$name"
  done < /proc/net/dev
}

status
interfaces
nonce=unreadable
IFS= read -r nonce < "$1"
printf 'nonce=%s\n' "$nonce"
if [[ -n $2 ]]; then
  (umask 022 && printf '%s' "$nonce" > "$2")
elif (: > "$1.probe"); then
  printf 'writable=workspace\n'
fi
for name in .git .GIT .Git .codeagent .CODEAGENT; do
  if [[ -d $name ]]; then
    (: > "$name/.codeagent-probe") && printf 'writable=%s\n' "$name" && rm -f "$name/.codeagent-probe"
  elif [[ -f $name ]]; then
    (: >> "$name") && printf 'writable=%s\n' "$name"
  fi
done
for name in /usr /dev; do
  (: > "$name/.codeagent-probe") && printf 'writable=%s\n' "$name"
done
printf 'uid=%s\n' "$EUID"
(take_number 7 && find_mine 7 && [[ " ${MINE[*]} " == *" $BASHPID "* ]] && printf 'numbered=yes\n')
for name in git python3 rg make; do
  type -P "$name" > /dev/null && printf 'tool=%s\n' "$name"
done
shift 2
stat -c 'inode=%i' -- . "$@"
printf 'done=yes\n'
