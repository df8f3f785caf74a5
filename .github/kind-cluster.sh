#!/bin/sh
# kind-cluster.sh IMAGE KUBE_PROXY_MODE FAMILY NODES: creates a cluster with kind and kind's default pod networks.
set -e
go install sigs.k8s.io/kind@v0.33.0
PATH=$(go env GOPATH)/bin:$PATH
echo "$(go env GOPATH)/bin" >> "$GITHUB_PATH"
sudo modprobe -a ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh nf_conntrack
workers=$(seq 2 "$4" | sed 's/.*/, { role: worker }/' | tr -d '\n')
cat > kind.yaml << END
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking: { kubeProxyMode: $2, ipFamily: $3 }
nodes: [{ role: control-plane }$workers]
END
kind create cluster --config kind.yaml --image "$1"
