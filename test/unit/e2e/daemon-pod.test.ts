import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { daemonOf } from "../../../src/e2e/daemon-pod.ts";

const container = {
  name: "kube-proxy",
  image: "registry.example/kube-ipvs:0.2.0",
  command: [
    "/usr/local/bin/kube-proxy",
    "--config=/var/lib/kube-proxy/config.conf",
    "--hostname-override=$(NODE_NAME)",
  ],
  args: ["-v=2", "--unknown=$(OTHER)"],
  env: [
    { name: "NODE_NAME", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } },
    { name: "PLAIN", value: "x" },
  ],
  ports: [
    { name: "healthz", containerPort: 10_256 },
    { name: "metrics", containerPort: 10_250 },
  ],
};
const pod = {
  metadata: { name: "kube-proxy-x7", namespace: "kube-system", uid: "u1" },
  spec: {
    nodeName: "node-1",
    serviceAccountName: "kube-proxy",
    containers: [{ name: "sidecar", image: "other" }, container],
  },
  status: { conditions: [{ type: "Ready", status: "True" }] },
};

describe("the pod of a daemon", () => {
  it("has the node, arguments and account", () => {
    assert.deepEqual(daemonOf(pod), {
      nodeName: "node-1",
      place: { namespace: "kube-system", pod: "kube-proxy-x7", container: "kube-proxy" },
      uid: "u1",
      image: "registry.example/kube-ipvs:0.2.0",
      flags: [
        "--config=/var/lib/kube-proxy/config.conf",
        "--hostname-override=node-1",
        "-v=2",
        "--unknown=$(OTHER)",
      ],
      account: "system:serviceaccount:kube-system:kube-proxy",
      metricsPort: 10_250,
      isReady: true,
    });
  });

  it("is not ready without the condition or while it terminates", () => {
    assert.equal(daemonOf({ ...pod, status: {} })?.isReady, false);
    const metadata = { ...pod.metadata, deletionTimestamp: new Date() };
    assert.equal(daemonOf({ ...pod, metadata })?.isReady, false);
  });

  it("has no daemon before it has a node", () => {
    const { nodeName: _nodeName, ...spec } = pod.spec;
    assert.equal(daemonOf({ ...pod, spec }), undefined);
  });
});
