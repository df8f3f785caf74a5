import assert from "node:assert/strict";
import { readFile, rm } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from "node:net";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import type { ApiError } from "../../../../src/api/api-error.ts";
import type { ApiResponse, ApiWrite } from "../../../../src/api/connection.ts";
import { ApiServer, type ApiServerOptions } from "../../../support/api-server/api-server.ts";
import { certificate, listNodes, Way } from "./way.ts";

async function startServer(test: TestContext, options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await ApiServer.start(options);
  test.after(() => server.stop());
  return server;
}

async function startTlsServer(test: TestContext): Promise<ApiServer> {
  const tls = {
    cert: await certificate("server.crt"),
    key: await certificate("server.key"),
    ca: await certificate("ca.crt"),
    requestCert: true,
    rejectUnauthorized: false,
  };
  return startServer(test, { tls });
}

async function portOf(server: Server, test: TestContext): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Waits until the file is not empty, and returns its content. */
async function contentOf(file: string): Promise<string> {
  for (;;) {
    const text = await readFile(file, "utf8").catch(() => "");
    if (text !== "") return text;
    await pause(5);
  }
}

/** Waits until this process has exited. A zombie has exited, too. */
async function untilGone(pid: number): Promise<void> {
  for (;;) {
    const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "State:\tZ");
    if (/^State:\s+[ZX]/m.test(status)) return;
    await pause(5);
  }
}

describe("a connection over TLS", () => {
  it("trusts the authority in the kubeconfig", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    const cluster = { server: server.url, "certificate-authority": "ca.crt" };
    assert.equal((await listNodes(await way.open(cluster))).status, 200);
    assert.equal(server.requests[0]?.headers["user-agent"], "kube-ipvs/test");
  });

  it("trusts no other authority", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    await assert.rejects(listNodes(await way.open({ server: server.url })), (error: ApiError) => {
      assert.match(
        error.message,
        /^Cannot reach API server https:\/\/127\.0\.0\.1:\d+: [A-Z_]+ \([^;]*\); check certificate-authority in the kubeconfig$/,
      );
      return error.status === 0;
    });
  });

  it("requires the correct name in the certificate", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    const cluster = {
      server: server.url,
      "certificate-authority": "ca.crt",
      "tls-server-name": "other.example",
    };
    await assert.rejects(listNodes(await way.open(cluster)), {
      reason: "ERR_TLS_CERT_ALTNAME_INVALID",
    });
    const named = { ...cluster, "tls-server-name": "api.example" };
    assert.equal((await listNodes(await way.open(named))).status, 200);
  });

  it("skips verification if the kubeconfig says so", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    const cluster = { server: server.url, "insecure-skip-tls-verify": true };
    assert.equal((await listNodes(await way.open(cluster))).status, 200);
  });

  it("sends the client's certificate, and the new one when the files are replaced", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    const show = async (name: string): Promise<void> => {
      await way.write("client.crt", await certificate(`${name}.crt`));
      await way.write("client.key", await certificate(`${name}.key`));
    };
    await show("client-1");
    const cluster = { server: server.url, "certificate-authority": "ca.crt" };
    const user = { "client-certificate": "client.crt", "client-key": "client.key" };
    const connection = await way.open(cluster, user);
    await listNodes(connection);
    await show("client-2");
    await listNodes(connection);
    await way.clock.advance(60_000);
    await listNodes(connection);
    await listNodes(connection);
    const names = server.requests.map(({ clientName }) => clientName);
    assert.deepEqual(names, ["client-1", "client-1", "client-2", "client-2"]);
  });

  it("reports that certificate and key do not match", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    await way.write("client.crt", await certificate("client-1.crt"));
    await way.write("client.key", await certificate("client-2.key"));
    const cluster = { server: server.url, "certificate-authority": "ca.crt" };
    const user = { "client-certificate": "client.crt", "client-key": "client.key" };
    await assert.rejects(listNodes(await way.open(cluster, user)), {
      message:
        `Cannot reach API server ${server.url}: ERR_OSSL_X509_KEY_VALUES_MISMATCH (key values mismatch); ` +
        "client-certificate and client-key in the kubeconfig do not match",
    });
  });

  it("reports that the server does not support TLS", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    const url = server.url.replace("http:", "https:");
    await assert.rejects(listNodes(await way.open({ server: url })), {
      message: `Cannot reach API server ${url}: EPROTO (wrong version number); the server does not speak TLS; if it uses plain HTTP, change the URL to http://`,
    });
  });

  it("keeps the last certificate while its file is missing", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    const connection = await way.open({ server: server.url, "certificate-authority": "ca.crt" });
    await rm(join(way.folder, "ca.crt"));
    await way.clock.advance(60_000);
    assert.equal((await listNodes(connection)).status, 200);
  });
});

describe("credentials", () => {
  const authorizations = (server: ApiServer): readonly unknown[] =>
    server.requests.map(({ headers }) => headers["authorization"]);

  it("can be a token", async (test) => {
    const server = await startServer(test, { token: "t-1" });
    const way = await Way.make(test);
    const connection = await way.open({ server: server.url }, { token: "t-1" });
    assert.equal((await listNodes(connection)).status, 200);
  });

  it("can be a password", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    await listNodes(await way.open({ server: server.url }, { username: "me", password: "pw" }));
    assert.deepEqual(authorizations(server), ["Basic bWU6cHc="]);
  });

  it("from a token file are read again after a minute", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    await way.write("token", "t-1\n");
    const connection = await way.open({ server: server.url }, { tokenFile: "token" });
    await listNodes(connection);
    await way.write("token", "t-2\n");
    await way.clock.advance(59_999);
    await listNodes(connection);
    await way.clock.advance(1);
    await listNodes(connection);
    assert.deepEqual(authorizations(server), ["Bearer t-1", "Bearer t-1", "Bearer t-2"]);
  });

  it("from a token file are read again after 401", async (test) => {
    const server = await startServer(test, { token: "t-2" });
    const way = await Way.make(test);
    await way.write("token", "t-1");
    const connection = await way.open({ server: server.url }, { tokenFile: "token", token: "x" });
    await way.write("token", "t-2");
    assert.equal((await listNodes(connection)).status, 401);
    assert.equal((await listNodes(connection)).status, 200);
    assert.deepEqual(authorizations(server), ["Bearer t-1", "Bearer t-2"]);
  });

  /** A plugin whose token contains its number of calls. */
  const plugin = (way: Way, script: string): object => ({
    exec: {
      apiVersion: "client.authentication.k8s.io/v1",
      command: process.execPath,
      args: ["-e", `const file = ${JSON.stringify(`${way.folder}/calls`)};${script}`],
    },
  });
  const counting = `
    const fs = require("node:fs");
    fs.appendFileSync(file, "x");
    const info = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
    const token = info.kind + "-" + fs.readFileSync(file).length;
    console.log(JSON.stringify({ kind: "ExecCredential", status: { token } }));`;

  it("from a plugin are kept until the server rejects them", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    const connection = await way.open({ server: server.url }, plugin(way, counting));
    await listNodes(connection);
    await way.clock.advance(600_000);
    await listNodes(connection);
    server.token = "ExecCredential-2";
    assert.equal((await listNodes(connection)).status, 401);
    assert.equal((await listNodes(connection)).status, 200);
    const [first, second] = ["Bearer ExecCredential-1", "Bearer ExecCredential-2"];
    assert.deepEqual(authorizations(server), [first, first, first, second]);
  });

  it("from a failing plugin cause an error with the plugin's message", async (test) => {
    const way = await Way.make(test);
    const user = plugin(way, 'console.error("no login\\nhere"); process.exit(1);');
    await assert.rejects(way.open({ server: "http://127.0.0.1:1" }, user), {
      message: /^Cannot get credentials for http:\/\/127\.0\.0\.1:1: no login; here/,
      reason: "no-credentials",
    });
  });

  it("can be a token of digits", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    await listNodes(await way.open({ server: server.url }, { token: 12_345 }));
    assert.deepEqual(authorizations(server), ["Bearer 12345"]);
  });

  /** Prints a token. While the file calls-hang exists, hangs with a child process instead. */
  const moody = `
    const fs = require("node:fs");
    fs.appendFileSync(file, "x");
    if (fs.existsSync(file + "-hang")) {
      const child = require("node:child_process").spawn("sleep", ["1000"], { stdio: "inherit" });
      fs.writeFileSync(file + "-child", String(child.pid));
      setInterval(() => {}, 1000);
    } else console.log(JSON.stringify({ kind: "ExecCredential", status: { token: "t" } }));`;

  it("from a hanging plugin: it is killed with its children and not started by each request", async (test) => {
    const way = await Way.make(test);
    const calls = (): Promise<string> => readFile(join(way.folder, "calls"), "utf8");
    const server = await startServer(test);
    const connection = await way.open({ server: server.url }, plugin(way, moody));
    server.token = "another";
    assert.equal((await listNodes(connection)).status, 401);
    await way.write("calls-hang", "");
    const waiting = listNodes(connection);
    const child = Number(await contentOf(join(way.folder, "calls-child")));
    await way.clock.advance(60_000);
    assert.equal((await waiting).status, 401);
    await untilGone(child);
    for (let index = 0; index < 5; index += 1) await listNodes(connection);
    await way.clock.advance(59_000);
    await listNodes(connection);
    assert.equal(await calls(), "xx");
    await rm(join(way.folder, "calls-hang"));
    server.token = undefined;
    await way.clock.advance(1_000);
    await listNodes(connection);
    assert.equal(await calls(), "xxx");
  });

  it("from a plugin that hangs at startup cause an error after a minute", async (test) => {
    const way = await Way.make(test);
    await way.write("calls-hang", "");
    const opening = way.open({ server: "https://127.0.0.1:1" }, plugin(way, moody));
    const refused = assert.rejects(opening, {
      message:
        "Cannot get credentials for https://127.0.0.1:1: the credential plugin did not finish within 60 s and was killed; " +
        "run the command in the kubeconfig by hand to see why",
    });
    const child = Number(await contentOf(join(way.folder, "calls-child")));
    await way.clock.advance(60_000);
    await refused;
    await untilGone(child);
  });

  it("from a plugin that reads its standard input, which is empty", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    const asking = `process.stdin.on("end", () => { ${counting} }).resume();`;
    assert.equal(
      (await listNodes(await way.open({ server: server.url }, plugin(way, asking)))).status,
      200,
    );
  });

  it("from a plugin with invalid output, which may be a secret and is not shown", async (test) => {
    const way = await Way.make(test);
    await assert.rejects(
      way.open({ server: "http://127.0.0.1:1" }, plugin(way, 'console.log("s3cret")')),
      {
        message:
          "Cannot get credentials for http://127.0.0.1:1: the output of the credential plugin is not JSON",
        cause: undefined,
      },
    );
  });
});

describe("requests with clientConnection.qps 5 and burst 2", () => {
  const nodes = "/api/v1/nodes";

  it("wait, including writes and watches, but not later pages of a list", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    way.rate = { qps: 5, burst: 2 };
    const connection = await way.open({ server: server.url });
    const { signal } = new AbortController();
    const drained = async (sending: Promise<ApiResponse>): Promise<void> => {
      for await (const _chunk of (await sending).body);
    };
    await drained(connection.request(nodes, { limit: "1" }, signal));
    await drained(connection.request(nodes, { limit: "1", continue: "x" }, signal));
    await drained(connection.request(nodes, {}, signal));
    const events = "/apis/events.k8s.io/v1/namespaces/default/events";
    const write = { method: "POST", path: events, contentType: "application/json", body: "{}" };
    const third = drained(connection.send(write as ApiWrite, signal));
    const fourth = connection.request(nodes, { watch: "true" }, AbortSignal.timeout(60_000));
    await way.clock.advance(199);
    assert.equal(server.requests.length, 3);
    await way.clock.advance(1);
    await third;
    assert.equal(server.requests.length, 4);
    await way.clock.advance(200);
    assert.equal((await fourth).status, 200);
  });

  it("are not sent if they are canceled while they wait", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    way.rate = { qps: 1, burst: 1 };
    const connection = await way.open({ server: server.url });
    await listNodes(connection);
    const abort = new AbortController();
    const waiting = connection.request(nodes, {}, abort.signal);
    abort.abort();
    await assert.rejects(waiting);
    assert.equal(server.requests.length, 1);
  });

  it("have no limit with a negative qps", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    way.rate = { qps: -1, burst: 1 };
    const connection = await way.open({ server: server.url });
    for (let index = 0; index < 20; index += 1) await listNodes(connection);
    assert.equal(server.requests.length, 20);
  });
});

describe("an API server that cannot be reached", () => {
  it("is named in the error, with the reason and what to check", async (test) => {
    const way = await Way.make(test);
    const unused = createTcpServer();
    const port = await portOf(unused, test);
    await new Promise((resolve) => unused.close(resolve));
    const connection = await way.open({ server: `https://127.0.0.1:${port}` });
    await assert.rejects(listNodes(connection), {
      message:
        `Cannot reach API server https://127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}; ` +
        "nothing is listening there; check that the API server is running and that the address is correct",
      reason: "ECONNREFUSED",
      status: 0,
    });
  });

  it("is named if the connection breaks within a body", async (test) => {
    const server = await startServer(test);
    server.faults.add({ on: "list", effect: "cut", afterBytes: 10 });
    const connection = await (await Way.make(test)).open({ server: server.url });
    await assert.rejects(listNodes(connection), {
      message: /^Cannot reach API server http:\/\/127\.0\.0\.1:\d+: .*ECONNRESET/,
    });
  });
});

describe("a compressed body", () => {
  it("that is truncated also causes an error with the server's name", {
    timeout: 60_000,
  }, async (test) => {
    const packed = gzipSync(`{"items":[${"1,".repeat(10_000)}2]}`);
    const server = createServer((_request, response) => {
      const headers = { "content-encoding": "gzip", "content-length": packed.length };
      response.writeHead(200, headers).write(packed.subarray(0, 20), () => response.destroy());
    });
    const port = await portOf(server, test);
    const way = await Way.make(test);
    await assert.rejects(listNodes(await way.open({ server: `http://127.0.0.1:${port}` })), {
      message: /^Cannot reach API server http:\/\/127\.0\.0\.1:\d+: .*ECONNRESET/,
    });
  });
});

describe("on the way to an API server", () => {
  it("an address may have a path", async (test) => {
    const paths: string[] = [];
    const server = createServer((request: IncomingMessage, response) => {
      paths.push(request.url ?? "");
      response.end("{}");
    });
    const port = await portOf(server, test);
    const way = await Way.make(test);
    await listNodes(await way.open({ server: `http://127.0.0.1:${port}/k8s/clusters/c-1/` }));
    assert.deepEqual(paths, ["/k8s/clusters/c-1/api/v1/nodes"]);
  });

  it("the address of the command line has precedence", async (test) => {
    const server = await startServer(test);
    const way = await Way.make(test);
    const cluster = { server: "https://127.0.0.1:1" };
    for (const master of [server.url, server.url.replace("http://", "")]) {
      const connection = await way.open(cluster, {}, master);
      assert.equal(connection.server, server.url);
      assert.equal((await listNodes(connection)).status, 200);
    }
  });

  it("an address without a scheme means TLS if an authority or credentials are given", async (test) => {
    const server = await startTlsServer(test);
    const way = await Way.make(test);
    const address = server.url.replace("https://", "");
    const authority = { "certificate-authority": "ca.crt" };
    const opened = [
      await way.open({ server: address, ...authority }),
      await way.open({ server: "http://127.0.0.1:1", ...authority }, {}, address),
      await way.open({ server: address, "insecure-skip-tls-verify": true }, { token: "t" }),
    ];
    for (const connection of opened) {
      assert.equal(connection.server, server.url);
      assert.equal((await listNodes(connection)).status, 200);
    }
    const users = [{ token: "t" }, { username: "me", password: "pw" }];
    for (const user of users) {
      assert.equal((await way.open({ server: address }, user)).server, server.url);
    }
  });

  it("a body may be compressed", async (test) => {
    const text = `{"items":[${"1,".repeat(10_000)}2]}`;
    const server = createServer((request: IncomingMessage, response) => {
      assert.equal(request.headers["accept-encoding"], "gzip");
      response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(text));
    });
    const port = await portOf(server, test);
    const way = await Way.make(test);
    const answer = await listNodes(await way.open({ server: `http://127.0.0.1:${port}` }));
    assert.equal(answer.text, text);
  });

  it("a proxy can be used", async (test) => {
    const server = await startTlsServer(test);
    const { port, targets } = await startProxy(test);
    const way = await Way.make(test);
    await way.write("client.crt", await certificate("client-1.crt"));
    await way.write("client.key", await certificate("client-1.key"));
    const cluster = {
      server: server.url,
      "certificate-authority": "ca.crt",
      "proxy-url": `http://127.0.0.1:${port}`,
    };
    const user = { "client-certificate": "client.crt", "client-key": "client.key" };
    const connection = await way.open(cluster, user);
    assert.equal((await listNodes(connection)).status, 200);
    assert.deepEqual(targets, [server.url.replace("https://", "")]);
    assert.equal(server.requests[0]?.clientName, "client-1");
  });

  it("the environment can name the proxy", async (test) => {
    const server = await startTlsServer(test);
    const { port, targets } = await startProxy(test);
    const way = await Way.make(test);
    Object.assign(way.environment, {
      HTTPS_PROXY: `127.0.0.1:${port}`,
      NO_PROXY: "10.0.0.0/8,.svc",
    });
    const target = server.url.replace(/^https:\/\/[^:]+/, "api.cluster.test");
    const connection = await way.open({
      server: `https://${target}`,
      "certificate-authority": "ca.crt",
      "tls-server-name": new URL(server.url).hostname,
    });
    assert.equal((await listNodes(connection)).status, 200);
    assert.deepEqual(targets, [target]);
  });

  it("the user can impersonate another one", async (test) => {
    const heads: IncomingMessage["headersDistinct"][] = [];
    const server = createServer((request: IncomingMessage, response) => {
      heads.push(request.headersDistinct);
      response.end("{}");
    });
    const port = await portOf(server, test);
    const way = await Way.make(test);
    const connection = await way.open(
      { server: `http://127.0.0.1:${port}` },
      { token: "t", as: "system:kube-proxy" },
    );
    assert.equal((await listNodes(connection)).status, 200);
    const [head = {}] = heads;
    assert.deepEqual(head["impersonate-user"], ["system:kube-proxy"]);
    assert.deepEqual(head["authorization"], ["Bearer t"]);
  });

  it("the proxy can use SOCKS", async (test) => {
    const server = await startTlsServer(test);
    let connections = 0;
    const proxy = createTcpServer((socket) => {
      socket.on("error", () => socket.destroy());
      // RFC 1928: the greeting is followed by a request for an IPv4 address (type 1), whose last bytes are the port.
      socket.once("data", () => {
        socket.write(Buffer.from([5, 0]));
        socket.once("data", (request: Buffer) => {
          connections += 1;
          const onward = connect(request.readUInt16BE(8), "127.0.0.1", () => {
            socket.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
            onward.pipe(socket).pipe(onward);
          });
          onward.on("error", () => socket.destroy());
        });
      });
    });
    const port = await portOf(proxy, test);
    const way = await Way.make(test);
    const connection = await way.open({
      server: server.url,
      "certificate-authority": "ca.crt",
      "proxy-url": `socks5://127.0.0.1:${port}`,
    });
    assert.equal((await listNodes(connection)).status, 200);
    assert.equal(connections, 1);
  });
});

/** Starts an HTTP proxy that resolves every name to this machine. Records the requested targets. */
async function startProxy(
  test: TestContext,
): Promise<{ readonly port: number; readonly targets: readonly string[] }> {
  const targets: string[] = [];
  const proxy = createServer();
  proxy.on("connect", (request: IncomingMessage, socket) => {
    targets.push(request.url ?? "");
    const { port } = new URL(`http://${request.url}`);
    const onward = connect(Number(port), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      onward.pipe(socket).pipe(onward);
    });
    for (const end of [onward, socket]) end.on("error", () => onward.destroy());
  });
  return { port: await portOf(proxy, test), targets };
}
