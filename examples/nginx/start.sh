#!/usr/bin/env bash
# Two igcf servers on one PostgreSQL behind nginx, all on loopback, for an ordinary user; Ctrl-C stops everything.
#   start.sh MODEL_FOLDER postgresql://USER@HOST/DB [options of igcf serve]
# Ports: PORT (the proxy, 8080), FIRST (8001), SECOND (8002). RUN: folder for process ids and logs (a temporary one).
set -euo pipefail
model=$1 store=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-8080} first=${FIRST:-8001} second=${SECOND:-8002}
run=${RUN:-$(mktemp -d -t igcf-nginx-XXXXXX)}
PATH=$PATH:/usr/sbin

serve() { # one server; started again when it dies, unless the mistake is ours (2) or it cannot be run (126, 127)
    local pid= code
    trap 'kill "$pid" 2>/dev/null || true; wait "$pid" || true; exit 0' TERM
    while :; do
        IGCF_STORE=$store igcf serve "$model" --port "$1" "${@:2}" & # a password on the command line could be read by others
        pid=$! code=0
        echo "$pid" >"$run/server-$1.pid"
        wait "$pid" || code=$?
        case $code in 2 | 126 | 127) exit "$code" ;; esac
        sleep 0.2
    done
}

stop() {
    trap - EXIT TERM INT
    kill $(jobs -p) 2>/dev/null || true
    wait || true
}
trap stop EXIT
trap 'exit 0' TERM INT

sed -e "s/127.0.0.1:8080/127.0.0.1:$port/" -e "s/127.0.0.1:8001/127.0.0.1:$first/" \
    -e "s/127.0.0.1:8002/127.0.0.1:$second/" "$here/nginx.conf" >"$run/nginx.conf"
serve "$first" "$@" &
serve "$second" "$@" &
nginx -p "$run" -c "$run/nginx.conf" -e stderr &
echo "http://127.0.0.1:$port, servers on $first and $second, files in $run"
wait -n # until any of the three ends
