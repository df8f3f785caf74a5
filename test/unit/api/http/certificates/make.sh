#!/bin/sh
# Creates the certificates for the connection tests: an authority, a server for 127.0.0.1, and two clients. They protect
# nothing and are valid for a hundred years.
set -eu
cd "$(dirname "$0")"
new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
sign() { # name, subject, extension
  new_key "$1"
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  printf '%s\n' "$3" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 36500 \
    -extfile "$1.ext" -out "$1.crt"
  rm "$1.csr" "$1.ext"
}
new_key ca
openssl req -x509 -new -key ca.key -subj "/CN=test authority" -days 36500 -out ca.crt
sign server "/CN=test server" "subjectAltName=IP:127.0.0.1,DNS:api.example"
sign client-1 "/CN=client-1" "extendedKeyUsage=clientAuth"
sign client-2 "/CN=client-2" "extendedKeyUsage=clientAuth"
rm -f ca.key ca.srl
