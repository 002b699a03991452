#!/bin/sh
# Creates a certificate authority, and a certificate for every part below FOLDER: `certificates.sh FOLDER [BACKEND...]`.
# BACKEND is a host name of a backend; settings use the first one (docs/operators-guide.md).
# A second run creates new certificates of the same authority. Protect FOLDER/authority: its holder can call any service.
set -eu

folder=${1:?usage: certificates.sh FOLDER [BACKEND...]}
shift
[ $# -gt 0 ] || set -- backend
days=${CERTIFICATE_DAYS:-365}
umask 077

authority=$folder/authority
if [ ! -e "$authority/tls.key" ]; then
    mkdir -p "$authority"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=workflow-api" \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -keyout "$authority/tls.key" -out "$authority/tls.crt"
fi

# Writes tls.key, tls.crt and ca.crt, the names of cert-manager and Kubernetes, to FOLDER/PART.
issue() {
    part=$1 names=$2
    mkdir -p "$folder/$part"
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$part" \
        -keyout "$folder/$part/tls.key.new" -out "$folder/$part/request"
    printf '%s\n' "subjectAltName=critical,$names" "extendedKeyUsage=serverAuth,clientAuth" \
        "basicConstraints=critical,CA:FALSE" >"$folder/$part/extensions"
    openssl x509 -req -in "$folder/$part/request" -days "$days" -CA "$authority/tls.crt" -CAkey "$authority/tls.key" \
        -CAcreateserial -extfile "$folder/$part/extensions" -out "$folder/$part/tls.crt.new"
    cp "$authority/tls.crt" "$folder/$part/ca.crt"
    # A running part loads the pair once both files are in place.
    mv "$folder/$part/tls.key.new" "$folder/$part/tls.key"
    mv "$folder/$part/tls.crt.new" "$folder/$part/tls.crt"
    rm "$folder/$part/request" "$folder/$part/extensions"
}

names=
for name in "$@"; do
    names="$names,DNS:$name"
done
issue backend "${names#,}"
issue edge DNS:edge.workflow-api
issue console DNS:console.workflow-api
issue admin DNS:admin.workflow-api
issue probe DNS:probe.workflow-api
