/**
 * Runs the image without iptables, from `make image-nftables`, on a node whose kernel has neither xtables nor ip_set. An
 * API server over HTTP provides the Services.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { globSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { ApiServer } from "../../support/api-server/api-server.ts";
import { NodeContainers } from "../../support/container/node-containers.ts";
import { configOf, podOf, readManifests } from "../../support/container/pod.ts";
import { shell } from "../../support/netns/network-namespace.ts";
import { endpointSlice, node, service } from "../../support/objects.ts";

const root = "root-without-iptables";
const rootPath = join(import.meta.dirname, "../../../build/image", root);
const manifests = readManifests("replace-kube-proxy");
const pod = podOf(manifests);
const [prepare] = pod.initContainers;
const [main] = pod.containers;
assert.ok(prepare !== undefined && main !== undefined);
const token = "token-of-the-account";
const endpointAddress = "10.244.1.10";

/** Programs of this name in the image. */
function programs(name: string): readonly string[] {
  return globSync(`{usr/local/,usr/,}{s,}bin/${name}`, { cwd: rootPath });
}

describe("the image without iptables", () => {
  let server: ApiServer;
  let onNode: NodeContainers;
  let endpoint: Server;

  before(async () => {
    shell(`
      mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
      ip link set lo up
      ip link add eth0 type dummy; ip link set eth0 up
      ip address add 192.168.10.11/24 dev eth0
      ip address add ${endpointAddress}/32 dev lo
    `);
    endpoint = createServer((socket) => socket.end("answer")).listen(8080, endpointAddress);
    await once(endpoint, "listening");
    const slice = endpointSlice({ endpoints: [endpointAddress] });
    server = await ApiServer.start({ token, objects: [node(), service(), slice] });
    const config = configOf(manifests);
    const kubeconfig = (config["kubeconfig.conf"] ?? "").replace(
      /server: .*/,
      `server: ${server.url}`,
    );
    onNode = new NodeContainers(pod, {
      ...{ token, root, nodeName: "node-1" },
      config: { ...config, "kubeconfig.conf": kubeconfig },
    });
  });

  after(async () => {
    await onNode.destroy();
    await server.stop();
    endpoint.close();
  });

  it("contains kube-ipvs, but neither iptables nor ipset", () => {
    assert.ok(programs("kube-proxy").length > 0);
    assert.deepEqual(programs("{ip,ip6,x}tables*"), []);
    assert.deepEqual(programs("ipset*"), []);
  });

  it("serves Services with the manifest's permissions", async () => {
    const preparing = onNode.start(prepare);
    assert.deepEqual(await preparing.ends(), { code: 0, signal: null }, preparing.output);
    const program = onNode.start({ ...main, command: [...main.command, "-v=3"] });
    await program.prints(/SyncProxyRules complete/);
    assert.match(program.output, /"Writing rules with nf_tables, without iptables and ipset"/);
    const client = connect(80, "10.96.0.10");
    const [answer] = await once(client, "data", { signal: AbortSignal.timeout(30_000) });
    assert.equal(String(answer), "answer");
    const refused = connect(81, "10.96.0.10");
    const [error] = await once(refused, "error", { signal: AbortSignal.timeout(30_000) });
    assert.equal(error.code, "ECONNREFUSED");
    assert.match(await onNode.exec(program, ["kube-ipvs", "status"]), /^OK, 1 Service, last sync /);
    onNode.signal(program, "TERM");
    assert.deepEqual(await program.ends(), { code: 0, signal: null }, program.output);
    assert.doesNotMatch(program.output, /^[EF]\d/m);
  });

  it("does not start with `rules: iptables`, and the only error names the remedy", async () => {
    const program = onNode.start({
      ...main,
      command: [...main.command, "--kube-ipvs-rules=iptables"],
    });
    assert.equal((await program.ends()).code, 1, program.output);
    assert.equal(program.failures.length, 1, program.output);
    assert.match(
      program.failures[0] ?? "",
      /^Cannot write rules with iptables and ipset: .+; set kubeIpvs\.rules: nftables$/,
    );
    assert.equal(program.output.match(/^[EF]\d/gm)?.length, 1, program.output);
  });
});
