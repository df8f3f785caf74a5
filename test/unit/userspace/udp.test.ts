/** Tests UDP through the userspace proxy, with real sockets. */
import assert from "node:assert/strict";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { closedPort, listenerFor, ProxierStage, udpServer } from "./backends.ts";

const udp = { key: "IPv4 default/dns/UDP", portName: "default/dns", protocol: "UDP" } as const;

class Client {
  readonly #socket: Socket = createSocket("udp4");

  constructor(test: TestContext) {
    test.after(() => this.#socket.close());
  }

  async ask(port: number, text: string): Promise<string> {
    this.#socket.send(text, port, "127.0.0.1");
    const [data] = (await once(this.#socket, "message", {
      signal: AbortSignal.timeout(2_000),
    })) as [Buffer];
    return data.toString();
  }

  send(port: number, text: string): void {
    this.#socket.send(text, port, "127.0.0.1");
  }
}

describe("UDP datagrams", () => {
  it("of one client reach one backend from one port, and those of another client reach the next backend", async (test) => {
    const backends = [await udpServer(test, "a"), await udpServer(test, "b")];
    const stage = new ProxierStage(test);
    const port = await stage.serve(listenerFor(backends, udp));
    const [one, two] = [new Client(test), new Client(test)];
    const first = await one.ask(port, "x");
    assert.equal(await one.ask(port, "x"), first);
    assert.match(first, /^a:\d+:x$/);
    assert.match(await two.ask(port, "y"), /^b:\d+:y$/);
    assert.equal(stage.proxier.openCount, 2);
  });

  it("reach another backend after the client has been idle for --udp-timeout", async (test) => {
    const backends = [await udpServer(test, "a"), await udpServer(test, "b")];
    const stage = new ProxierStage(test, { udpTimeoutMs: 600 });
    const port = await stage.serve(listenerFor(backends, udp));
    const client = new Client(test);
    for (let count = 0; count < 4; count += 1) {
      assert.match(await client.ask(port, "x"), /^a/, "each datagram restarts the timeout");
      await pause(200);
    }
    while (stage.proxier.openCount > 0) await pause(10);
    assert.match(await client.ask(port, "x"), /^b/);
  });

  it("reach another backend if the port of their backend is closed", async (test) => {
    const stage = new ProxierStage(test);
    const backends = [await closedPort(), await udpServer(test, "b")];
    const port = await stage.serve(listenerFor(backends, udp));
    const client = new Client(test);
    client.send(port, "lost");
    await pause(100);
    client.send(port, "finds out");
    await pause(100);
    assert.match(await client.ask(port, "x"), /^b/);
  });

  it("reach another backend if their backend no longer serves, however often they arrive", async (test) => {
    const backends = [await udpServer(test, "a"), await udpServer(test, "b")];
    const stage = new ProxierStage(test, { udpTimeoutMs: 60_000 });
    const port = await stage.serve(listenerFor(backends, udp));
    const client = new Client(test);
    assert.match(await client.ask(port, "x"), /^a/);
    const [, other] = backends;
    const serving = new Set(backends.map(({ key }) => key));
    await stage.serve(listenerFor(other === undefined ? [] : [other], { ...udp, serving }));
    assert.match(await client.ask(port, "x"), /^a/, "it is no longer chosen but still serves");
    await stage.serve(listenerFor(other === undefined ? [] : [other], udp));
    assert.match(await client.ask(port, "x"), /^b/);
  });

  it("are dropped if there is no backend, and end with the Service", async (test) => {
    const stage = new ProxierStage(test);
    const port = await stage.serve(listenerFor([], udp));
    const client = new Client(test);
    client.send(port, "nobody");
    await pause(50);
    assert.equal(stage.proxier.openCount, 0);
    await stage.serve(listenerFor([await udpServer(test, "a")], udp));
    await client.ask(port, "x");
    assert.equal(stage.proxier.openCount, 1);
    await stage.proxier.replaceServices(new Map([["default/web", []]]));
    assert.equal(stage.proxier.openCount, 0);
  });
});
