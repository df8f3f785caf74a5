/**
 * A hostile tenant and 50 Services of other tenants, with the built program on a real kernel. Connections to the other
 * Services must continue, new ones must reach their pod, and the node's ports, modules and memory must be unaffected.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import {
  gateways,
  nodePorts,
  otherNode,
  otherNodeAddresses,
  tenantSteps,
  victimClusterIps,
  victimCount,
  victimExternalIps,
  victimNodePort,
  victimObjects,
  victimPort,
} from "../fuzz/hostile-tenant.ts";
import { askName, Connection } from "../support/client-traffic.ts";
import { ClusterNode } from "../support/cluster-node.ts";
import {
  enterNetworkNamespace,
  leaveNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { buildNodeNetwork, nodeAddress, removeNodeNetwork } from "../support/node-network.ts";
import type { ApiObject } from "../support/objects.ts";
import { countOf, firstSeed } from "../support/seeds.ts";

/** The endpoint of every victim. */
const pod = { name: "victim", address: "10.244.1.10" };
const stepCount = countOf({ short: 100, long: 2_000 });
const stepsBetweenChecks = 10;
const openConnections = 5;
/**
 * The lab's processor is several times slower than a node's, so this limit only detects a hanging loop. The fuzz
 * targets measure delays.
 */
const longestDelaySeconds = 2.048;
/**
 * Resident memory includes garbage and the tenant's current objects. The fuzz targets measure the heap without either.
 */
const mostMemoryGrowth = 1.3;
/** The number of Events that one node can write immediately, and then per second. */
const eventBurst = 25;
const eventsPerSecond = 10;

const victims = victimObjects().map((object) => {
  const slice = object as unknown as ApiObject & { readonly endpoints?: readonly object[] };
  if (slice.kind !== "EndpointSlice" || slice["addressType"] !== "IPv4") return slice;
  return { ...slice, endpoints: [{ addresses: [pod.address], conditions: { ready: true } }] };
});

/** Alternates between the ways to reach a victim. */
function wayTo(turn: number): readonly [string, number] {
  const index = turn % victimCount;
  const ways = [
    [victimClusterIps(index)[0], victimPort],
    [victimExternalIps(index)[0], victimPort],
    [nodeAddress, victimNodePort(index)],
  ] as const;
  return ways[Math.floor(turn / victimCount + turn) % ways.length] ?? ways[0];
}

function bound(): string[] {
  const found = shell("ip -o address show kube-ipvs0 2> /dev/null || true").matchAll(
    /inet6? (\S+)\//g,
  );
  return [...found].map(([, address]) => address ?? "");
}

function modules(): readonly string[] {
  const lines = readFileSync("/proc/modules", "utf8").trim().split("\n");
  return lines.map((line) => line.split(" ")[0] ?? "").toSorted();
}

for (const mode of ["ipvs", "iptables", "userspace"] as const) {
  describe(`a hostile tenant in ${mode} mode`, () => {
    let node: ClusterNode;
    const processes: ChildProcess[] = [];
    const connections: Connection[] = [];
    const created = new Map<string, ApiObject>();
    const steps = fc.sample(tenantSteps, { seed: firstSeed, numRuns: stepCount });
    let startedAtMs = 0;
    let turn = 0;
    let memoryBefore = 0;

    async function startProcess(script: string, args: readonly string[], netns?: string) {
      const command = [process.execPath, join(import.meta.dirname, script), ...args];
      const [file = "", ...rest] =
        netns === undefined ? command : ["ip", "netns", "exec", netns, ...command];
      const child = spawn(file, rest, { stdio: ["ignore", "pipe", "inherit"] });
      processes.push(child);
      await once(child.stdout, "data");
    }

    function residentBytes(): Promise<number> {
      return node.metric("process_resident_memory_bytes");
    }

    async function longestDelay(): Promise<number> {
      const name = "kube_ipvs_event_loop_delay_seconds_bucket";
      const total = await node.metric("kube_ipvs_event_loop_delay_seconds_count");
      for (let power = 0; power < 15; power += 1) {
        const seconds = 0.001 * 2 ** power;
        if ((await node.metric(name, { le: String(seconds) })) >= total) return seconds;
      }
      return Number.POSITIVE_INFINITY;
    }

    async function checkVictims(): Promise<void> {
      for (const [index, connection] of connections.entries())
        await connection.ping(`${turn} ${index}`);
      const [address, port] = wayTo(turn);
      const answer = await askName(address, port).catch(String);
      assert.equal(answer, pod.name, `${answer} at ${address}:${port}\n${node.tail()}`);
      turn += 1;
    }

    async function checkNode(): Promise<void> {
      for (const port of nodePorts) {
        const answer = await askName(nodeAddress, port).catch(String);
        assert.equal(answer, "node", `${answer} at port ${port}\n${node.tail()}`);
      }
      const reserved: readonly string[] = [nodeAddress, gateways[0], ...otherNodeAddresses];
      const wrong = bound().filter((address) => reserved.includes(address));
      const servers = mode === "ipvs" ? shell("ipvsadm -Sn").split("\n") : [];
      const isWrong = (line: string): boolean =>
        /-t 192\.168\.10\.12:|169\.254\.169\.254/.test(line);
      wrong.push(...servers.filter(isWrong));
      assert.equal(wrong.length, 0, `${wrong.join(", ")} after ${turn} objects\n${node.tail()}`);
    }

    before(async () => {
      buildNodeNetwork([pod]);
      enterNetworkNamespace("node");
      shell(
        `ip -n client route add 203.0.113.0/24 via ${nodeAddress}; sysctl -qw net.ipv4.ip_forward=1`,
      );
      shell("rm -rf /var/lib/kube-ipvs");
      await startProcess("../support/pod-traffic.ts", [pod.name], pod.name);
      for (const port of nodePorts)
        await startProcess("../support/pod-traffic.ts", ["node", String(port), String(port)]);
      node = await ClusterNode.build([...victims, otherNode as unknown as ApiObject], { mode });
      startedAtMs = performance.now();
      await node.start();
      for (let index = 0; index < openConnections; index += 1)
        connections.push(await Connection.open(...wayTo(index), "echo"));
      await checkNode();
    });
    after(async () => {
      for (const connection of connections) connection.reset();
      await node.close();
      for (const child of processes) child.kill("SIGKILL");
      leaveNetworkNamespace();
      removeNodeNetwork([pod]);
    });

    it(`affects neither victims' answers nor the node's ports and addresses: ${stepCount} objects`, async () => {
      // Services may cause the kernel to load Linux's schedulers and the SCTP port match.
      const expected =
        /^(?:ip_vs(?:_(?:rr|wrr|lc|wlc|lblcr?|dh|sh|sed|nq|fo|ovf|mh|twos))?|xt_sctp)$/;
      const modulesBefore = modules();
      for (const [index, { isGone, objects }] of steps.entries()) {
        for (const object of objects as unknown as readonly ApiObject[]) {
          const key = `${object.kind} ${object.metadata["name"]}`;
          if (!isGone) {
            node.api.apply(object);
            created.set(key, object);
          } else if (created.delete(key)) node.api.delete(object);
        }
        await checkVictims();
        if (index === stepsBetweenChecks) memoryBefore = await residentBytes();
        if (index % stepsBetweenChecks === 0) await checkNode();
      }
      const loaded = modules().filter((name) => !modulesBefore.includes(name));
      assert.deepEqual(
        loaded.filter((name) => !expected.test(name)),
        [],
      );
      for (const connection of connections) assert.equal(connection.ending, undefined);
    });

    it("keeps Events, memory and event loop delays within bounds", async (test) => {
      const events = node.api.events.events.length;
      const seconds = (performance.now() - startedAtMs) / 1_000;
      const growth = (await residentBytes()) / memoryBefore;
      const delay = await longestDelay();
      test.diagnostic(
        `${stepCount} objects in ${seconds.toFixed(0)} s: memory x${growth.toFixed(2)}, ${events} Events, event loop at most ${delay} s`,
      );
      assert.ok(events <= eventBurst + 1 + seconds * eventsPerSecond, `${events} Events`);
      assert.ok(growth <= mostMemoryGrowth, `memory grew to ${growth}`);
      assert.ok(delay <= longestDelaySeconds, `the event loop was blocked for up to ${delay} s`);
      const about = node.api.events.events.map(({ regarding }) => JSON.stringify(regarding));
      assert.deepEqual(
        about.filter((text) => text.includes('"victim"')),
        [],
      );
    });

    it("does not affect other tenants when all its objects are deleted", async () => {
      node.api.delete(...created.values());
      for (let time = 0; time < victimCount; time += 1) await checkVictims();
      await checkNode();
    });
  });
}
