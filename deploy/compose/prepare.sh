#!/bin/sh
# Creates the secrets of compose.yaml, below secrets/ beside this file; existing ones stay.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
secrets=$here/secrets
mkdir -p "$secrets"

[ -e "$secrets/console/tls.crt" ] || "$here/../container/certificates.sh" "$secrets" backend

made() { openssl rand -hex 24; }
if [ ! -e "$secrets/database" ]; then
    database=$(made) redis=$(made) objects=$(made)
    printf '%s' "$database" >"$secrets/database-password"
    printf '%s' "postgresql://workflow_api:$database@postgresql/workflow_api" >"$secrets/database"
    printf '%s' "redis://:$redis@redis:6379/0" >"$secrets/redis"
    printf 'requirepass %s\nsave ""\nappendonly no\nmaxmemory 64mb\n' "$redis" >"$secrets/redis-settings"
    printf '[default]\naws_access_key_id = workflow-api\naws_secret_access_key = %s\n' "$objects" >"$secrets/objects"
    printf '{"identities": [{"name": "workflow-api", "actions": ["Admin"], "credentials": [%s]}]}\n' \
        "{\"accessKey\": \"workflow-api\", \"secretKey\": \"$objects\"}" >"$secrets/objects-settings"
fi

# Containers read these as other users; the folder above keeps out everyone else on this machine.
find "$secrets" -mindepth 1 -path "$secrets/authority" -prune -o -exec chmod go+rX {} +
chmod 0700 "$secrets" "$secrets/authority"
