# SPDX-License-Identifier: Apache-2.0
#
# Part of run.sh: certificates.

cd "$work" || exit 1
unset MESHFLOW_TLS_CA MESHFLOW_TLS_CERT MESHFLOW_TLS_KEY
ok "cert makes an authority and a certificate" "authority    tls/ca.pem" "for any task" \
    "export MESHFLOW_TLS_CA=tls/ca.pem" "Valid until" -- cert --out tls --host node1 --host 10.0.0.2
check "certificates are readable only by their owner" sh -c \
    'test "$(stat -c %a tls tls/*.pem | sort | uniq -c | tr -s " ")" = "$(printf " 4 600\n 1 700")"'
check "the certificate is of the authority" openssl verify -CAfile tls/ca.pem -purpose sslserver \
    -verify_hostname node1 tls/cert.pem
check "the certificate is valid for clients too" openssl verify -CAfile tls/ca.pem -purpose sslclient -verify_ip 10.0.0.2 tls/cert.pem
fails "cert overwrites nothing" "'tls/key.pem' exists already" -- cert --out tls
ok "cert for tasks, of the same authority" "tls/worker-1/cert.pem" "for worker 1" -- \
    cert --out tls --task 'worker 0' --task 'worker 1' --days 2
check "a task's directory has all it needs" test -s tls/worker-1/ca.pem -a -s tls/worker-1/key.pem
check "a task's certificate is of the authority" openssl verify -CAfile tls/worker-0/ca.pem tls/worker-1/cert.pem
check "a task's certificate names the task" sh -c \
    'openssl x509 -in tls/worker-1/cert.pem -noout -ext subjectAltName | grep -q "URI:meshflow:task:worker%201"'
fails "cert for a task that has one" "worker-0/cert.pem' exists already" -- cert --out tls --task 'worker 0'
wrong "cert for a task without a name" "is not a valid task name" -- cert --out tls --task ../x
fails "cert for what is no host" "'no host' is neither a host name nor an address" -- cert --out other --host 'no host'
rm other/*.pem tls/ca-key.pem
fails "cert without the authority's key" "without its ca-key.pem" -- cert --out tls --task 'worker 7'
fails "cert where nothing can be made" "none/deep" -- cert --out none/deep
wrong "cert without a place" "--out is missing" -- cert
wrong "cert for no days" "--days" -- cert --out other --days 0
MESHFLOW_PLUGIN_PATH=$work
export MESHFLOW_PLUGIN_PATH
cp "$program" alone
program_before=$program program=$work/alone
fails "cert without the plugin" "no meshflow-grpc.so in $work" "install the Debian package libgrpc-dev" -- cert --out other
echo "no library" >meshflow-grpc.so
fails "a plugin that is none" "cannot load the plugin for" "file too short" -- cert --out other
program=$program_before
unset MESHFLOW_PLUGIN_PATH
