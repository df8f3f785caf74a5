/** Servers on loopback that tests proxy to. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { systemClock } from "../../../src/base/clock.ts";
import type { IpAddress } from "../../../src/base/ip.ts";
import type { ServicePort } from "../../../src/model/service-port.ts";
import { servicePortsOf } from "../../../src/model/service-ports.ts";
import { UserspaceProxier } from "../../../src/userspace/proxier.ts";
import type { Backend, ServiceListener } from "../../../src/userspace/service-listeners.ts";
import type { SocketQuotas } from "../../../src/userspace/service-quota.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { serviceRecord } from "../../support/records.ts";

export const loopback = "127.0.0.1" as IpAddress;

export function backendAt(port: number): Backend {
  return { key: `127.0.0.1:${port}`, address: loopback, port };
}

/** A TCP server; ends with the test. */
export async function tcpServer(
  test: TestContext,
  serve: (socket: Socket) => void,
): Promise<Backend> {
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    serve(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  test.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return backendAt((server.address() as AddressInfo).port);
}

/** A TCP server that says its name and closes. */
export function namedServer(test: TestContext, name: string): Promise<Backend> {
  return tcpServer(test, (socket) => socket.end(name));
}

/** A UDP server that answers with its name and what it got. */
export async function udpServer(test: TestContext, name: string): Promise<Backend> {
  const socket = createSocket("udp4");
  socket.on("message", (data, { port, address }) => {
    socket.send(`${name}:${port}:${data.toString()}`, port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  test.after(() => socket.close());
  return backendAt(socket.address().port);
}

/** A port that nothing listens on. */
export async function closedPort(): Promise<Backend> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return backendAt(port);
}

/** Of the Service that {@link listenerFor} listens for. */
const servicePort: ServicePort =
  servicePortsOf(
    serviceRecord({ name: "default/web", clusterIps: ["10.96.0.1" as IpAddress] }),
    "IPv4",
  )[0] ?? assert.fail();

export function listenerFor(
  backends: readonly Backend[],
  fields: Partial<ServiceListener> = {},
): ServiceListener {
  return {
    key: "IPv4 default/web:http/TCP",
    service: "default/web",
    servicePort,
    portName: "default/web:http",
    family: "IPv4",
    protocol: "TCP",
    frontends: [],
    reserved: [],
    addresses: ["10.96.0.1" as IpAddress],
    isNodePortRestricted: false,
    port: 80,
    nodePort: 0,
    affinitySeconds: 0,
    backends,
    serving: new Set(backends.map(({ key }) => key)),
    ...fields,
  };
}

/** A proxier on free ports of loopback. */
export class ProxierStage {
  readonly log: RecordingLogger = new RecordingLogger();
  readonly proxier: UserspaceProxier;

  constructor(
    test: TestContext,
    options: {
      readonly udpTimeoutMs?: number;
      readonly drainMs?: number;
      /** All listen there; absent: on the node port, or a free one. */
      readonly port?: number;
      readonly quotas?: Partial<SocketQuotas>;
    } = {},
  ) {
    const { udpTimeoutMs = 1_000, drainMs = 0, port } = options;
    const plenty = { total: 4_000, perService: 4_000 };
    this.proxier = new UserspaceProxier({
      clock: systemClock,
      log: this.log,
      udpTimeoutMs,
      drainMs,
      quotas: { connections: plenty, listenerSockets: plenty, ...options.quotas },
      addressOf: ({ nodePort }) => ({ host: "127.0.0.1", port: port ?? nodePort }),
    });
    test.after(() => this.proxier.stop());
  }

  /** Serves it; the result is the local port. */
  async serve(wanted: ServiceListener): Promise<number> {
    await this.proxier.replaceServices(new Map([[wanted.service, [wanted]]]));
    return this.proxier.open().find((open) => open.wanted === wanted)?.localPorts.port ?? 0;
  }
}

/** What a server sends until it closes. */
export async function readAll(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return text;
}
