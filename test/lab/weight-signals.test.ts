/**
 * Tests weights from signals with the built program, real pods and an external client, in both families. The weight
 * servers of the pods run in this process.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type IpAddress, ipFamilies } from "../../src/base/ip.ts";
import type { ObservedRealServer } from "../../src/state/real-server.ts";
import type { VirtualServerId } from "../../src/state/virtual-server.ts";
import { askName, Connection, openIn } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { addIpv6, ipv6Of, nodeAddress } from "../support/node-network.ts";
import { type ApiObject, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";
import { labRules } from "../support/rules-writer.ts";
import { kubeIpvs, runKubeIpvs } from "../support/run-kube-ipvs.ts";

const pods = [1, 2, 3].map((number) => {
  const pod = { name: `pod-${number}`, address: `10.244.1.${number}0` };
  return { ...pod, ipv6: ipv6Of(pod) };
});
const clusterIps = { IPv4: "10.96.0.10", IPv6: "fd00:96::a" } as const;
const servers = ipFamilies.map(
  (family) => ({ protocol: "TCP", address: ip(clusterIps[family]), port: 80 }) as const,
);
const weightPort = 9_100;
const slicePorts = [
  { name: "http", protocol: "TCP", port: 8080 },
  { name: "weight", protocol: "TCP", port: weightPort },
];

function web(weights: string): ApiObject {
  return service({
    clusterIps: Object.values(clusterIps),
    ports: [
      { name: "http", protocol: "TCP", port: 80, targetPort: 8080 },
      { name: "weight", protocol: "TCP", port: weightPort, targetPort: weightPort },
    ],
    metadata: {
      annotations: { "kube-ipvs.io/scheduler": "wrr", "kube-ipvs.io/weights": weights },
    },
  });
}

function slices(addressesOf: (typeof pods)[number][], extra: readonly string[] = []): ApiObject[] {
  return [
    endpointSlice({
      name: "web-4",
      ports: slicePorts,
      endpoints: [...addressesOf.map(({ address }) => address), ...extra],
    }),
    endpointSlice({
      name: "web-6",
      ports: slicePorts,
      endpoints: addressesOf.map(({ ipv6 }) => ipv6),
    }),
  ];
}

const http = `http=:${weightPort}/weight`;
const head = "HTTP/1.1 200 OK\r\n\r\n";

/** Answers a request. */
type Answer = (socket: Socket) => void;
const number =
  (text: string): Answer =>
  (socket) =>
    socket.end(`${head}${text}\n`);

describe("weights from signals", () => {
  let node: LabNode;
  const listeners: Server[] = [];
  const answers = new Map<string, Answer>();
  /** Number of connections to the weight server of each pod, and of the node. */
  const asked = new Map<string, number>();
  const connections: Connection[] = [];

  async function listen(namespace: string, name: string): Promise<void> {
    const server = createServer((socket) => {
      asked.set(name, (asked.get(name) ?? 0) + 1);
      socket.on("error", () => {});
      socket.once("data", () => answers.get(name)?.(socket));
    });
    await openIn(namespace, async () => {
      server.listen(weightPort);
      await once(server, "listening");
    });
    server.unref();
    listeners.push(server);
  }

  before(async () => {
    node = await LabNode.build(pods);
    addIpv6(pods);
    for (const { name } of pods) await listen(name, name);
    await listen("node", "node");
  });
  afterEach(async () => {
    for (const connection of connections.splice(0)) connection.reset();
    answers.clear();
    asked.clear();
    await node.clear();
  });
  after(async () => {
    for (const server of listeners) server.close();
    await node.destroy();
  });

  const flags = (period: string): readonly string[] => [
    "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
    ...(labRules === undefined ? [] : [`--kube-ipvs-rules=${labRules}`]),
    `--kube-ipvs-weight-request-period=${period}`,
  ];

  function answer(...list: readonly (string | Answer)[]): void {
    for (const [index, one] of list.entries()) {
      answers.set(pods[index]?.name ?? "", typeof one === "string" ? number(one) : one);
    }
  }

  /** The weights of both families, such as `10 90 / 10 90`. */
  async function weights(): Promise<string> {
    const text = async (server: (typeof servers)[number]): Promise<string> => {
      const byAddress = new Map<IpAddress, ObservedRealServer>(
        (await node.realServers(server)).map((one) => [one.address, one] as const),
      );
      return pods
        .flatMap(({ address, ipv6 }) => byAddress.get(ip(address)) ?? byAddress.get(ip(ipv6)) ?? [])
        .map(({ weight }) => weight)
        .join(" ");
    };
    return (await Promise.all(servers.map(text))).join(" / ");
  }

  async function haveWeights(wanted: string): Promise<void> {
    const both = `${wanted} / ${wanted}`;
    await until(
      async () => (await weights()) === both,
      patienceMs,
      async () => `${both} is wanted, not ${await weights()}\n${node.program.output}`,
    );
  }

  async function open(): Promise<Connection> {
    const connection = await Connection.open(clusterIps.IPv4, 80, "echo");
    connections.push(connection);
    await connection.name();
    return connection;
  }

  /** Waits until the first pod gets 10 of 100 connections. On a slow machine, answers may be late for a while. */
  async function distributesOneTenth(): Promise<void> {
    let ofFirst = 0;
    const isTenth = async (): Promise<boolean> => {
      ofFirst = 0;
      for (let turn = 0; turn < 100; turn++) {
        if ((await askName(clusterIps.IPv4, 80)) === "pod-1") ofFirst += 1;
      }
      return ofFirst >= 9 && ofFirst <= 11;
    };
    await until(isTenth, patienceMs, async () => `${ofFirst} of 100`);
  }

  /** Does not block this process, because the weight servers would not answer meanwhile. */
  async function hasNothingToPlan(): Promise<void> {
    const { code, out, err } = await runKubeIpvs("plan", ...node.flags, ...flags("3s"));
    assert.equal(code, 0, out + err);
  }

  it("that endpoints answer distribute connections, follow changed answers and survive a kill, and break no connection", async () => {
    answer("10", "90");
    node.apply(web(http), ...slices(pods.slice(0, 2)));
    await node.start(flags("3s"));
    await haveWeights("10 90");
    for (let turn = 0; turn < 4; turn++) await open();
    await distributesOneTenth();
    await hasNothingToPlan();
    // The commands block this process, which includes the weight servers, so a request may have failed.
    const isShown = async (): Promise<boolean> =>
      /10\.244\.1\.20:8080 .* 90 .*answered/.test(kubeIpvs("services", "web").out) &&
      /Answered weights +4 of 4 endpoints/.test(kubeIpvs("status").out) &&
      (await node.metric('kube_ipvs_weight_signals{signal="answered"}')) === 4;
    const hasShown = async (): Promise<boolean> => (await isShown()) || (await pause(2_000, false));
    await until(hasShown, patienceMs, async () => kubeIpvs("services", "web").out);
    answer("90", "10");
    await haveWeights("90 10");
    // The state file is written at the same time as the kernel.
    await pause(1_000);
    await node.stop();
    answer(
      (socket) => socket.destroy(),
      (socket) => socket.destroy(),
    );
    await node.start(flags("60s"));
    assert.equal(await weights(), "90 10 / 90 10", "a restart keeps the answers");
    for (const connection of connections) await connection.ping("restarted");
    await node.stop();
    await node.start(flags("3s"));
    await haveWeights("1 1");
    answer("0", "90");
    await haveWeights("1 90");
    for (const connection of connections) await connection.ping("changed");
  });

  it("that endpoints answer are 0 for at most one of three endpoints", async () => {
    answer("0", "50", "50");
    node.apply(web(http), ...slices(pods));
    await node.start(flags("3s"));
    await haveWeights("0 50 50");
    const services = kubeIpvs("services", "web").out;
    assert.match(services, /10\.244\.1\.10:8080 .* 0 .*zero-weight/);
    await hasNothingToPlan();
    answer("0", "0", "50");
    await haveWeights("1 1 50");
    answer("0", "0", "0");
    await haveWeights("1 1 1");
  });

  const hostile: Readonly<Record<string, Answer>> = {
    "a huge body": (socket) => {
      const more = (): void => {
        if (!socket.writable) return;
        if (socket.write("1".repeat(10_000))) setImmediate(more);
        else socket.once("drain", more);
      };
      socket.write(head);
      more();
    },
    "a slow body": (socket) => {
      socket.write(`${head}5`);
    },
    "a redirect": (socket) => {
      const location = `http://${nodeAddress}:${weightPort}/`;
      socket.end(`HTTP/1.1 302 Found\r\nlocation: ${location}\r\n\r\n50`);
    },
    NaN: number("NaN"),
    "a negative number": number("-1"),
    "a huge number": number("1e9"),
    "a number above 100": number("101"),
    "no HTTP": (socket) => socket.end("50\n"),
    silence: () => {},
  };

  it("that endpoints answer are ignored and reported if they are hostile", async (test) => {
    answer("10", "90", number("NaN"));
    node.apply(web(http), ...slices(pods));
    await node.start(flags("1s"));
    await haveWeights("10 90 50");
    for (const [name, hostileAnswer] of Object.entries(hostile)) {
      answer("10", "90", hostileAnswer);
      const before = asked.get("pod-3") ?? 0;
      await until(
        async () => (asked.get("pod-3") ?? 0) >= before + 4,
        patienceMs,
        async () => node.program.output,
      );
      test.diagnostic(name);
      await haveWeights("10 90 50");
    }
    assert.equal(asked.get("node"), undefined, "no redirect is followed");
    await node.program.prints(
      /"Ignoring annotation" .*reason="invalid-weight-answer" message="[1-6] of 6 endpoints have no valid weight/,
    );
    assert.match(kubeIpvs("services", "web").out, /10\.244\.1\.30:8080 .* 50 .*no-answer/);
    const metric = 'kube_ipvs_ignored_annotations{reason="invalid-weight-answer"}';
    assert.equal(await node.metric(metric), 1);
    answer("10", "90", "20");
    await haveWeights("10 90 20");
  });

  it("that endpoints answer are not asked for by default, nor at this node's addresses, nor at ports that no slice lists", async () => {
    answer("10", "90");
    const objects = slices(pods.slice(0, 2), [nodeAddress]);
    node.apply(web(http), ...objects);
    await node.start(flags("0s"));
    await node.program.prints(/"Ignoring annotation" .*"kubeIpvs.weightRequestPeriod is 0s"/);
    await pause(3_000);
    assert.deepEqual([...asked], []);
    assert.equal(await weights(), "1 1 / 1 1");
    await node.stop();
    await node.start(flags("1s"));
    await haveWeights("10 90");
    await pause(3_000);
    assert.equal(asked.get("node"), undefined);
    asked.clear();
    node.apply(web("http=:9101/weight"), ...objects);
    await node.program.prints(/"Ignoring annotation" .*"no endpoint .* has the TCP port 9101"/);
    await haveWeights("1 1");
    asked.clear();
    await pause(3_000);
    assert.deepEqual([...asked], []);
  });

  describe("and an endpoint that fails new connections", () => {
    const appPort = 8_081;
    let apps: Server[] = [];
    let client: ChildProcess | undefined;
    /** The connections of the client since the last call of `seen`. */
    let lines: string[] = [];

    const balanced = (scheduler: string): ApiObject =>
      service({
        clusterIps: Object.values(clusterIps),
        ports: [{ name: "app", protocol: "TCP", port: 80, targetPort: appPort }],
        metadata: {
          annotations: {
            "kube-ipvs.io/scheduler": scheduler,
            "kube-ipvs.io/outlier-ejection": "5s",
          },
        },
      });
    const appSlices = (...addresses: readonly string[]): ApiObject[] =>
      ipFamilies.map((family) =>
        endpointSlice({
          name: `web-${family.toLowerCase()}`,
          addressType: family,
          ports: [{ name: "app", protocol: "TCP", port: appPort }],
          endpoints: addresses.filter((one) => one.includes(":") === (family === "IPv6")),
        }),
      );
    const allOf = (count: number): readonly string[] =>
      pods.slice(0, count).flatMap(({ address, ipv6 }) => [address, ipv6]);

    /** Each pod answers with its name. */
    async function serve(name: string): Promise<Server> {
      const app = createServer((socket) => {
        socket.on("error", () => {});
        socket.on("data", (data) => {
          const text = data.toString();
          if (text === "name\n") socket.end(`${name}\n`);
          else socket.write(text.startsWith("ping") ? `${name} ${text}` : `${name}\n`);
        });
      });
      await openIn(name, async () => {
        app.listen(appPort);
        await once(app, "listening");
      });
      app.unref();
      return app;
    }

    beforeEach(async () => {
      apps = [];
      for (const { name } of pods) apps.push(await serve(name));
      const script = join(import.meta.dirname, "../support/steady-client.ts");
      const args = ["netns", "exec", "client", process.execPath, script, "80"];
      client = spawn("ip", [...args, clusterIps.IPv4, clusterIps.IPv6], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      createInterface(client.stdout as Readable).on("line", (line) => lines.push(line));
    });
    afterEach(() => {
      client?.kill("SIGKILL");
      for (const app of apps) app.close();
    });

    /** The answers in a period, sorted: `10.96.0.10 pod-1`. */
    async function seen(ms: number): Promise<readonly string[]> {
      lines = [];
      await pause(ms);
      return [...new Set(lines)].sort();
    }

    /** Waits for a period with these answers and no others. Connections that began earlier may still fail. */
    async function comeFrom(...names: readonly string[]): Promise<void> {
      const wanted = answersOf(...names).join();
      let last: readonly string[] = [];
      await until(
        async () => {
          last = await seen(3_000);
          return last.join() === wanted;
        },
        patienceMs,
        async () => `${last.join()} instead of ${wanted}\n${node.program.output}`,
      );
    }
    const answersOf = (...names: readonly string[]): readonly string[] =>
      Object.values(clusterIps).flatMap((address) => names.map((name) => `${address} ${name}`));

    /** How the third pod begins to fail, and works again. */
    const failures: Readonly<Record<string, readonly [() => unknown, () => unknown]>> = {
      silence: [
        () =>
          shell(
            "ip -n pod-3 route replace blackhole 10.244.1.1; ip -n pod-3 -6 route replace blackhole fd00:244:1::1",
          ),
        () =>
          shell(
            "ip -n pod-3 route replace 10.244.1.1 dev eth0 scope link; ip -n pod-3 -6 route del blackhole fd00:244:1::1",
          ),
      ],
      refusal: [
        () => apps[2]?.close(),
        async () => {
          apps[2] = await serve("pod-3");
        },
      ],
      "a host that is gone": [
        () => shell("ip -n pod-3 link set eth0 down"),
        () =>
          shell(`
            ip -n pod-3 link set eth0 up
            ip -n pod-3 route add 10.244.1.1 dev eth0 scope link
            ip -n pod-3 route add default via 10.244.1.1
            ip -n pod-3 address replace fd00:244:1::30/128 dev eth0 nodad
            ip -n pod-3 -6 route replace fd00:244:1::1 dev eth0
            ip -n pod-3 -6 route replace default via fd00:244:1::1
          `),
      ],
    };

    for (const [name, [fail, recover]] of Object.entries(failures)) {
      it(`receives no more connections until it works again: ${name}`, async () => {
        node.apply(balanced("rr"), ...appSlices(...allOf(3)));
        await node.start(flags("0s"));
        await haveWeights("1 1 1");
        await comeFrom("pod-1", "pod-2", "pod-3");
        while (connections.length < 6) await open();
        await fail();
        await haveWeights("1 1 0");
        await comeFrom("pod-1", "pod-2");
        assert.match(kubeIpvs("services", "web").out, /10\.244\.1\.30:8081 .* 0 .*ejected/);
        assert.match(kubeIpvs("status").out, /Ejected endpoints +2/);
        assert.equal(await node.metric('kube_ipvs_weight_signals{signal="ejected"}'), 2);
        await hasNothingToPlan();
        await node.stop();
        await node.start(flags("0s"));
        assert.equal(await weights(), "1 1 0 / 1 1 0", "a restart keeps the ejection");
        await recover();
        await haveWeights("1 1 1");
        await comeFrom("pod-1", "pod-2", "pod-3");
        for (const connection of connections) await connection.ping("still open");
      });
    }

    it("still receives connections if there are fewer than three endpoints, or if no other endpoint works", async () => {
      for (const app of apps) app.close();
      for (const count of [1, 2, 3]) {
        node.apply(balanced("rr"), ...appSlices(...allOf(count)));
        if (count === 1) await node.start(flags("0s"));
        const wanted = Array(count).fill("1").join(" ");
        await haveWeights(wanted);
        assert.deepEqual(await seen(13_000), answersOf("failed"));
        assert.equal(await weights(), `${wanted} / ${wanted}`);
      }
      apps[0] = await serve("pod-1");
      await until(
        async () => /^1 (1 0|0 1) \/ 1 (1 0|0 1)$/.test(await weights()),
        patienceMs,
        async () => `${await weights()}\n${node.program.output}`,
      );
      await pause(10_000);
      assert.match(await weights(), /^1 (1 0|0 1) \/ 1 (1 0|0 1)$/, "one of two failing endpoints");
    });

    it("is one of at most 16 of 50 endpoints", async () => {
      const working = Array.from({ length: 30 }, (_, index) => `10.244.7.${index + 1}`);
      const gone = Array.from({ length: 20 }, (_, index) => `10.244.8.${index + 1}`);
      shell(`
        ${working.map((one) => `ip -n pod-1 address add ${one}/32 dev eth0`).join("\n")}
        ip route add 10.244.7.0/24 dev veth1
        ip route add 10.244.8.0/24 dev veth2
      `);
      node.apply(balanced("rr"), ...appSlices(...working, ...gone));
      await node.start(flags("0s"));
      const zeros = async (): Promise<number> =>
        (await node.realServers(servers[0] as VirtualServerId)).filter(({ weight }) => weight === 0)
          .length;
      await until(
        async () => (await zeros()) === 16,
        patienceMs,
        async () => `${await zeros()}\n${node.program.output}`,
      );
      await pause(12_000);
      assert.equal(await zeros(), 16);
    });
  });
});
