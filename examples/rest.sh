#!/usr/bin/env bash
# A job in shell: it leads, finds where the last run ended, does one step, and saves it. Run it as often as you like.
# Nothing but curl and sed is needed. Usage: rest.sh [JOB]
set -euo pipefail

service=${MILEPOST_URL:-http://127.0.0.1:7070}/v1
job=${1:-shell-job}
session=$job-$(date +%s)-$$
ask() { # -L follows a redirect to the leader; a refusal is shown, and ends the script
    local answer
    answer=$(curl -LsS --fail-with-body -H "Milepost-Session: $session" -H "Content-Type: ${type:-application/octet-stream}" "$@") ||
        { echo "$answer" >&2 && return 1; }
    echo "$answer"
}

# A session is a lease. It lasts 60 seconds here, since nothing renews it.
type=application/json ask -X POST "$service/sessions" -d '{"ttl": 60, "session": "'"$session"'", "holder": "rest.sh"}' >/dev/null
trap 'ask -X DELETE "$service/sessions/$session" >/dev/null' EXIT

# The epoch says that this run may write, and goes with each write. Another run that leads is waited for.
epoch=$(type=application/json ask -X POST "$service/stores/$job/epoch" -d '{"wait": 30}' | sed 's/.*"epoch": *\([0-9]*\).*/\1/')

handle=$service/stores/$job/handles/latest
if version=$(ask -I "$handle" 2>/dev/null | tr -d '\r' | sed -n 's/^[Ee][Tt]ag: //p') && [ -n "$version" ]; then
    step=$(ask "$handle/state")
    ask -X POST "$handle/lock" >/dev/null
    echo "epoch $epoch: the last run ended at step $step"
    ask -X PUT "$handle" -H "Milepost-Epoch: $epoch" -H "If-Match: $version" --data-binary "$((step + 1))" >/dev/null
else
    step=0
    echo "epoch $epoch: the first run"
    ask -X POST "$handle" -H "Milepost-Epoch: $epoch" --data-binary 1 >/dev/null
fi
echo "saved step $((step + 1))"
