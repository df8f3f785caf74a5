/**
 * Restarts the program while the API server is down. The kernel still serves, and the commands must say which server
 * does not answer, since when, and what is served meanwhile. They must not report that there are no Services.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { ClusterNode } from "../support/cluster-node.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { endpointSlice, service } from "../support/objects.ts";
import { kubeIpvs } from "../support/run-kube-ipvs.ts";

const namespace = "dead-api";

/** `kept` is how the commands describe what is still served. `command` shows it in the kernel, where `found` matches it. */
const modes = [
  {
    mode: "ipvs",
    kept: "the kernel still has 1 virtual server",
    command: "ipvsadm -Sn",
    found: /^-A -t 10\.96\.0\.10:80 /m,
  },
  {
    mode: "iptables",
    kept: "rules of an earlier run remain in place until then",
    command: "iptables-save",
    found: /-d 10\.96\.0\.10\/32 /,
  },
] as const;

for (const { mode, kept, command, found } of modes) {
  describe(`an API server that is down at startup in ${mode} mode`, () => {
    let node: ClusterNode;
    let server = "";

    before(async () => {
      createNetworkNamespace(namespace, nodeSetUp);
      enterNetworkNamespace(namespace);
      const objects = [service(), endpointSlice({ endpoints: ["10.244.2.11"] })];
      node = await ClusterNode.build(objects, { mode });
      server = new URL(node.api.url).host;
      await node.start();
      await node.stop();
      await node.api.stop();
      node.spawn();
      await node.until("status names the server", () =>
        kubeIpvs("status").out.includes(`API server ${server} does not answer`),
      );
    });
    after(async () => {
      await node.close();
      leaveNetworkNamespace();
      removeNetworkNamespace(namespace);
    });

    it("leaves the kernel's state in place", () => {
      assert.match(shell(command), found);
    });

    for (const args of [
      ["services"],
      ["services", "default/web"],
      ["explain", "default/web"],
      ["explain", "--from", "192.0.2.1", "--to", "10.96.0.10:80"],
    ]) {
      it(`is named by ${args.join(" ")}, which also says what is served meanwhile`, () => {
        const { code, out, err } = kubeIpvs(...args);
        assert.equal(code, 1);
        assert.equal(out, "");
        const reason = `Services have not been read yet: .*API server ${server} does not answer \\(for .*\\); ${kept}\n$`;
        assert.match(err, new RegExp(reason));
      });
    }

    it("is the reason for the verdict of status, which shows no counts", () => {
      const { code, out } = kubeIpvs("status");
      assert.equal(code, 2);
      assert.match(out, /^Degraded: .*does not answer \(for /);
      assert.match(
        out,
        new RegExp(`^API server +${server}, no answer yet, requests have been failing for `, "m"),
      );
      assert.match(out, /^Services +unknown until the first sync$/m);
      assert.doesNotMatch(out, /^(?:Virtual|Real) servers/m);
    });
  });
}
