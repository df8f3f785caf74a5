/** Servers on loopback to which tests proxy. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { systemClock } from "../../../src/base/clock.ts";
import { hostPort, type IpAddress } from "../../../src/base/ip.ts";
import type { ServicePort } from "../../../src/model/service-port.ts";
import { servicePortsOf } from "../../../src/model/service-ports.ts";
import { UserspaceProxier } from "../../../src/userspace/proxier.ts";
import type { Backend, ServiceListener } from "../../../src/userspace/service-listeners.ts";
import type { SocketQuotas } from "../../../src/userspace/service-quota.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { serviceRecord } from "../../support/records.ts";

export const loopback = "127.0.0.1" as IpAddress;

export function backendAt(port: number): Backend {
  return { key: hostPort(loopback, port), address: loopback, port };
}

/** Starts a TCP server, which stops when the test ends. */
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

/** Starts a TCP server that sends its name and closes the connection. */
export function namedServer(test: TestContext, name: string): Promise<Backend> {
  return tcpServer(test, (socket) => socket.end(name));
}

/** Starts a UDP server that answers with its name and the received data. */
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

/** Returns a port on which nothing listens. */
export async function closedPort(): Promise<Backend> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return backendAt(port);
}

/** The service port of {@link listenerFor}. */
export const servicePort: ServicePort =
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

/** A proxier that listens on free loopback ports. */
export class ProxierStage {
  readonly log: RecordingLogger = new RecordingLogger();
  readonly proxier: UserspaceProxier;

  constructor(
    test: TestContext,
    options: {
      readonly udpTimeoutMs?: number;
      readonly drainMs?: number;
      /** The port of all listeners. Defaults to the node port or a free port. */
      readonly port?: number;
      readonly quotas?: Partial<SocketQuotas>;
      /** Whether rules redirect packets to the listeners. Defaults to false. */
      readonly isRedirected?: boolean;
    } = {},
  ) {
    const { udpTimeoutMs = 1_000, drainMs = 0, port, isRedirected = false } = options;
    const plenty = { total: 4_000, perService: 4_000 };
    this.proxier = new UserspaceProxier({
      clock: systemClock,
      log: this.log,
      udpTimeoutMs,
      drainMs,
      quotas: { connections: plenty, listenerSockets: plenty, ...options.quotas },
      addressOf: ({ nodePort }) => ({ host: "127.0.0.1", port: port ?? nodePort, isRedirected }),
    });
    test.after(() => this.proxier.stop());
  }

  /** Serves the Service and returns the local port. */
  async serve(wanted: ServiceListener): Promise<number> {
    await this.proxier.replaceServices(new Map([[wanted.service, [wanted]]]));
    return this.proxier.open().find((open) => open.wanted === wanted)?.localPorts.port ?? 0;
  }
}

/** Returns the data that a server sends until it closes the connection. */
export async function readAll(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return text;
}
