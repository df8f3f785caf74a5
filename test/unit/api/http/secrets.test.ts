/** Tests that errors from the API server or credentials never write a secret to the log, at any verbosity. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ClusterSource } from "../../../../src/api/cluster/cluster-source.ts";
import { EventWriter } from "../../../../src/api/cluster/events/event-writer.ts";
import { openConnection } from "../../../../src/api/cluster/open-connection.ts";
import { LogWriter } from "../../../../src/daemon/log/log-writer.ts";
import { startingEvent } from "../../../../src/daemon/report/events.ts";
import { ApiServer } from "../../../support/api-server/api-server.ts";
import { RecordingListener } from "../../../support/recording-listener.ts";
import { clockAt } from "./cluster.ts";
import { certificate, Way } from "./way.ts";

const secret = "s3cr3t-t0k3n";

/** A plugin that fails and prints secrets in its error message. */
const talkative = (script: string): object => ({
  exec: {
    apiVersion: "client.authentication.k8s.io/v1",
    command: process.execPath,
    args: ["-e", script],
    env: [{ name: "TOKEN", value: secret }],
  },
});

const users: readonly (readonly [name: string, user: object])[] = [
  ["a token", { token: secret }],
  ["a token file", { tokenFile: "token" }],
  ["a password", { username: "me", password: secret }],
  [
    "a plugin that returns a token",
    talkative(
      `console.log(JSON.stringify({ kind: "ExecCredential", apiVersion: "client.authentication.k8s.io/v1", status: { token: process.env.TOKEN } }))`,
    ),
  ],
  ["a plugin whose answer is not JSON", talkative("console.log('token: ' + process.env.TOKEN)")],
];

describe("secrets are not logged", () => {
  for (const [name, user] of users) {
    it(`for ${name}`, async (test) => {
      const server = await ApiServer.start({ token: "another" });
      test.after(() => server.stop());
      for (const effect of [{ effect: "reset" }, { effect: "status", code: 500 }] as const) {
        server.faults.add({ on: "any", ...effect });
      }
      const way = await Way.make(test);
      await way.write("token", secret);
      await way.write("client.key", await certificate("client-1.key"));
      const cluster = { server: server.url };
      const kubeconfig = {
        clusters: [{ name: "c", cluster }],
        users: [{ name: "u", user }],
        contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
        "current-context": "x",
      };
      await way.write("config", JSON.stringify(kubeconfig));
      let text = "";
      const clock = clockAt(400);
      const write = (line: string): void => {
        text += line;
      };
      const outlet = { clock, pid: 1, write };
      const log = new LogWriter(outlet, { format: "json", verbosity: 10 });
      const opening = openConnection(
        { clock, environment: {} },
        { kubeconfig: join(way.folder, "config"), master: "", userAgent: "kube-ipvs/test" },
      );
      const connection = await opening.catch((error: Error) => {
        // If the start fails, the program prints this error as its last line.
        text += error.message;
      });
      if (connection !== undefined) {
        const source = new ClusterSource(
          { connection, clock, log, random: Math.random },
          { nodeName: "node-1" },
        );
        const events = new EventWriter(
          { connection, clock, log },
          { hostname: "host-1", nodeName: "node-1" },
        );
        await source.start(new RecordingListener());
        events.record(startingEvent("node-1"));
        while (!/Unauthorized.*Unauthorized/s.test(text)) {
          await new Promise((resolve) => setImmediate(resolve));
        }
        await events.stop();
        await source.stop();
      }
      assert.notEqual(text, "");
      const forms = [secret, Buffer.from(`me:${secret}`).toString("base64")];
      for (const form of forms) assert.equal(text.includes(form), false, text);
    });
  }
});
