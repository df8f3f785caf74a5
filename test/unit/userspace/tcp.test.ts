/** Tests TCP through the userspace proxy, with real sockets. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { ServiceListener } from "../../../src/userspace/service-listeners.ts";
import { cidr } from "../../support/records.ts";
import {
  closedPort,
  listenerFor,
  namedServer,
  ProxierStage,
  readAll,
  servicePort,
  tcpServer,
} from "./backends.ts";

const mebibyte = 1_048_576;

async function opened(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  await once(socket, "connect");
  return socket;
}

describe("TCP connections", () => {
  it("are closed at first if the Service has source ranges, until rules guard the listener's port", async (test) => {
    const backend = await namedServer(test, "a");
    const { proxier, log } = new ProxierStage(test, { isRedirected: true });
    const sourceRanges = [cidr("198.51.100.0/24")];
    const restricted = listenerFor([backend], { servicePort: { ...servicePort, sourceRanges } });
    const answer = async (wanted: ServiceListener): Promise<string> => {
      await proxier.replaceServices(new Map([[wanted.service, [wanted]]]));
      return readAll(proxier.open()[0]?.localPorts.port ?? 0).catch(() => "closed");
    };
    assert.equal(await answer(restricted), "closed");
    const before = proxier.open();
    proxier.noteGuarded(before);
    assert.equal(await answer(restricted), "a");
    await proxier.replaceServices(new Map([[restricted.service, []]]));
    assert.equal(await answer(restricted), "closed");
    proxier.noteGuarded(before);
    assert.equal(await answer(restricted), "closed", "the ports of an earlier listener");
    assert.equal(await answer(listenerFor([backend])), "a", "without source ranges");
    assert.ok(log.lines.every(({ level }) => level === "verbose"));
  });

  it("are forwarded to the backends in turn", async (test) => {
    const names = ["a", "b", "c"];
    const backends = await Promise.all(names.map((name) => namedServer(test, name)));
    const port = await new ProxierStage(test).serve(listenerFor(backends));
    const got: string[] = [];
    for (let count = 0; count < 6; count += 1) got.push(await readAll(port));
    assert.deepEqual(got, [...names, ...names]);
  });

  it("stay with one backend with session affinity", async (test) => {
    const backends = await Promise.all(["a", "b"].map((name) => namedServer(test, name)));
    const port = await new ProxierStage(test).serve(listenerFor(backends, { affinitySeconds: 60 }));
    for (let count = 0; count < 4; count += 1) assert.equal(await readAll(port), "a");
  });

  it("can end in one direction while the other continues", async (test) => {
    const echo = await tcpServer(test, (socket) => {
      let text = "";
      socket.on("data", (chunk) => {
        text += String(chunk);
      });
      socket.on("end", () => void pause(30).then(() => socket.end(`got ${text}`)));
    });
    const port = await new ProxierStage(test).serve(listenerFor([echo]));
    const socket = await opened(port);
    socket.end("question");
    let answer = "";
    for await (const chunk of socket) answer += String(chunk);
    assert.equal(answer, "got question");
  });

  it("pass megabytes in both directions unchanged, at the pace of a slow reader", async (test) => {
    const data = randomBytes(64 * mebibyte);
    const sum = createHash("sha256").update(data).digest("hex");
    let received = 0;
    const echo = await tcpServer(test, (socket) => {
      socket.on("data", (chunk) => {
        received += chunk.length;
      });
      socket.pipe(socket);
    });
    const stage = new ProxierStage(test);
    const port = await stage.serve(listenerFor([echo]));
    const socket = await opened(port);
    socket.end(data);
    await pause(300);
    // Only the kernel's buffers of two connections are filled, in each direction.
    assert.ok(received < 48 * mebibyte, `${received} bytes accepted while nobody reads`);
    const hash = createHash("sha256");
    for await (const chunk of socket) hash.update(chunk as Buffer);
    assert.equal(hash.digest("hex"), sum);
    assert.equal(stage.proxier.openCount, 0);
  });

  it("pass on a reset", async (test) => {
    const backend = await tcpServer(test, (socket) => void socket.resetAndDestroy());
    const port = await new ProxierStage(test).serve(listenerFor([backend]));
    const socket = await opened(port);
    const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
    assert.equal(error.code, "ECONNRESET");
  });

  it("end at the backend if the client resets", async (test) => {
    const closed = Promise.withResolvers<boolean>();
    const backend = await tcpServer(test, (socket) => {
      socket.write("hello");
      socket.on("close", () => closed.resolve(true));
    });
    const port = await new ProxierStage(test).serve(listenerFor([backend]));
    const socket = await opened(port);
    await once(socket, "data");
    socket.resetAndDestroy();
    assert.equal(await closed.promise, true);
  });

  it("are forwarded to the next backend if one cannot be reached", async (test) => {
    const dead = await closedPort();
    const alive = await namedServer(test, "alive");
    const port = await new ProxierStage(test).serve(listenerFor([dead, alive]));
    for (let count = 0; count < 4; count += 1) assert.equal(await readAll(port), "alive");
  });

  it("are reset if no backend can be reached, or there is none", async (test) => {
    const stage = new ProxierStage(test);
    for (const backends of [[await closedPort()], []]) {
      await assert.rejects(readAll(await stage.serve(listenerFor(backends))), /ECONNRESET/);
    }
    const lines = stage.log.lines.filter(({ level }) => level === "warn");
    assert.deepEqual(
      lines.map(({ event }) => event),
      ["Cannot connect to any endpoint, closing the connection"],
    );
  });
});

describe("a change", () => {
  it("of endpoints keeps connections and sends new ones to other endpoints", async (test) => {
    const echo = await tcpServer(test, (socket) => socket.pipe(socket));
    const stage = new ProxierStage(test);
    const port = await stage.serve(listenerFor([echo]));
    const socket = await opened(port);
    const other = await namedServer(test, "other");
    assert.equal(await stage.serve(listenerFor([other])), port, "the listener remains");
    assert.equal(await readAll(port), "other");
    socket.write("still here");
    assert.equal(String((await once(socket, "data"))[0]), "still here");
    socket.destroy();
  });

  it("that removes a Service closes its listener, and its connections continue until the deadline", async (test) => {
    const echo = await tcpServer(test, (socket) => socket.pipe(socket));
    const stage = new ProxierStage(test, { drainMs: 150 });
    const port = await stage.serve(listenerFor([echo]));
    const socket = await opened(port);
    const closed = new Promise((resolve) => void socket.on("error", resolve));
    socket.write("a");
    await once(socket, "data");
    await stage.proxier.replaceServices(new Map([["default/web", []]]));
    assert.deepEqual(stage.proxier.open(), []);
    await assert.rejects(opened(port), /ECONNREFUSED/);
    socket.write("b");
    assert.equal(String((await once(socket, "data"))[0]), "b");
    await closed;
    assert.equal(stage.proxier.openCount, 0);
  });

  it("is served once a port in use becomes free", async (test) => {
    const taken = await closedPort();
    const blocker = new ProxierStage(test, { port: taken.port });
    await blocker.serve(listenerFor([]));
    const stage = new ProxierStage(test, { port: taken.port });
    const backend = await namedServer(test, "web");
    assert.equal(await stage.serve(listenerFor([backend])), 0);
    const { key } = listenerFor([]);
    assert.equal(stage.proxier.isOpen(key), false);
    const [line] = stage.log.lines.filter(({ level }) => level === "error");
    assert.match(String(line?.keys["err"]), /EADDRINUSE/);
    await blocker.proxier.stop();
    await stage.proxier.retryFailed();
    assert.equal(stage.proxier.isOpen(key), true);
    assert.equal(await readAll(taken.port), "web");
  });
});

describe("ports of listeners", () => {
  async function stageOf(
    test: TestContext,
  ): Promise<{ stage: ProxierStage; web: ServiceListener; api: ServiceListener }> {
    const stage = new ProxierStage(test);
    const [{ port: one }, { port: two }] = [await closedPort(), await closedPort()];
    const web = listenerFor([await namedServer(test, "web")], { nodePort: one });
    const names = { key: "IPv4 default/api:http/TCP", service: "default/api" };
    const api = listenerFor([await namedServer(test, "api")], { ...names, nodePort: two });
    await stage.proxier.replaceServices(new Map([web, api].map((each) => [each.service, [each]])));
    return { stage, web, api };
  }

  it("can move from one Service to another in one change, and be swapped", async (test) => {
    const { stage, web, api } = await stageOf(test);
    const crossed = [
      { ...web, nodePort: api.nodePort },
      { ...api, nodePort: web.nodePort },
    ];
    await stage.proxier.replaceServices(new Map(crossed.map((each) => [each.service, [each]])));
    assert.deepEqual([await readAll(web.nodePort), await readAll(api.nodePort)], ["api", "web"]);
    assert.deepEqual(
      stage.log.lines.filter(({ level }) => level === "error"),
      [],
    );
  });

  it("move immediately to a Service that waited for one", async (test) => {
    const { stage, web, api } = await stageOf(test);
    const waiting = { ...api, nodePort: web.nodePort };
    await stage.proxier.replaceServices(new Map([[api.service, [waiting]]]));
    assert.deepEqual([stage.proxier.isOpen(api.key), await readAll(web.nodePort)], [false, "web"]);
    await stage.proxier.replaceServices(new Map([[web.service, []]]));
    assert.deepEqual([stage.proxier.isOpen(api.key), await readAll(web.nodePort)], [true, "api"]);
  });
});

describe("a thousand connections", () => {
  it("can be open and answered at the same time", async (test) => {
    const echo = await tcpServer(test, (socket) => socket.pipe(socket));
    const stage = new ProxierStage(test);
    const port = await stage.serve(listenerFor([echo]));
    const sockets = await Promise.all(Array.from({ length: 1_000 }, () => opened(port)));
    const answers = await Promise.all(
      sockets.map(async (socket, number) => {
        socket.write(String(number));
        const [data] = (await once(socket, "data")) as [Buffer];
        return data.toString();
      }),
    );
    assert.deepEqual(
      answers,
      sockets.map((_, number) => String(number)),
    );
    assert.equal(stage.proxier.openCount, 1_000);
    for (const socket of sockets) socket.destroy();
  });
});
