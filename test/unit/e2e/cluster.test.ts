/** Tests the acceptance test's clients with the test API server, over HTTP and WebSockets. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { describe, it, type TestContext } from "node:test";
import { PatchStrategy, setHeaderOptions } from "@kubernetes/client-node";
import { openConnection, openCredentials } from "../../../src/api/cluster/open-connection.ts";
import { systemClock } from "../../../src/base/clock.ts";
import {
  type ClusterApi,
  clusterApi,
  unlessMissing,
} from "../../../src/e2e/cluster/cluster-api.ts";
import { ExecShell } from "../../../src/e2e/cluster/exec-shell.ts";
import { namespaceObject, serviceObject } from "../../../src/e2e/objects.ts";
import { ApiServer } from "../../support/api-server/api-server.ts";

const dependencies = { clock: systemClock, environment: {} };
const namespace = "e2e";

async function startServer(test: TestContext): Promise<ApiServer> {
  const server = await ApiServer.start();
  test.after(() => server.stop());
  return server;
}

async function open(test: TestContext, { url }: ApiServer): Promise<ClusterApi> {
  const access = { kubeconfig: "", master: url, userAgent: "test" };
  const connection = await openConnection(dependencies, access);
  test.after(() => connection.close());
  return clusterApi(connection);
}

describe("the typed clients", () => {
  it("create, read, list by labels, patch and delete", async (test) => {
    const { core } = await open(test, await startServer(test));
    await core.createNamespace({ body: namespaceObject(namespace) });
    const { metadata } = await core.readNamespace({ name: namespace });
    assert.equal(metadata?.labels?.["kube-ipvs.io/e2e"], "true");
    const labels = { app: "a", keep: "yes" };
    const metadataOfPod = { name: "p", namespace, labels };
    const body = { kind: "Pod", apiVersion: "v1", metadata: metadataOfPod };
    await core.createNamespacedPod({ namespace, body });
    const listed = async (labelSelector: string): Promise<readonly unknown[]> =>
      (await core.listNamespacedPod({ namespace, labelSelector })).items.map(
        (pod) => pod.metadata?.labels,
      );
    assert.deepEqual(await listed("app in (a,b)"), [labels]);
    const mergePatch = setHeaderOptions("Content-Type", PatchStrategy.MergePatch);
    const patch = { metadata: { labels: { app: null } } };
    await core.patchNamespacedPod({ name: "p", namespace, body: patch }, mergePatch);
    assert.deepEqual(await listed(""), [{ keep: "yes" }]);
    await core.deleteNamespacedPod({ name: "p", namespace });
    assert.deepEqual(await listed(""), []);
  });

  it("report missing objects, and the reason for a rejected request", async (test) => {
    const server = await startServer(test);
    const { core } = await open(test, server);
    assert.equal(await unlessMissing(core.readNamespace({ name: "none" })), undefined);
    server.authorize = () => false;
    await assert.rejects(core.listNamespacedPod({ namespace }), {
      message:
        "Cannot GET /api/v1/namespaces/e2e/pods: 403 Forbidden (forbidden: GET /api/v1/namespaces/e2e/pods); " +
        "grant it, as deploy/kustomize/e2e does",
      status: 403,
    });
  });

  it("send a Service without a selector unchanged", async (test) => {
    const { core } = await open(test, await startServer(test));
    const body = serviceObject(namespace, "hints");
    const { spec } = await core.createNamespacedService({ namespace, body });
    assert.equal(spec?.selector, undefined);
    assert.equal(spec?.ports?.length, 2);
  });
});

describe("a command in a pod", () => {
  const place = { namespace, pod: "p" };

  async function shellAt(test: TestContext, script: string): Promise<ExecShell> {
    const server = await startServer(test);
    server.startCommand = ({ pod, command }) => {
      assert.deepEqual(command, ["two words", "x"]);
      return pod === "p" ? spawn(process.execPath, ["-e", script]) : undefined;
    };
    const access = { kubeconfig: "", master: server.url };
    return new ExecShell(await openCredentials(dependencies, access));
  }

  const command = ["two words", "x"];

  it("resolves with its exit code and its output", async (test) => {
    const shell = await shellAt(
      test,
      'console.log("é"); console.error("e"); process.exitCode = 3;',
    );
    assert.deepEqual(await shell.run(place, command), { exitCode: 3, out: "é\n", err: "e\n" });
  });

  it("passes on its first line while it runs, and ends on request", async (test) => {
    const script =
      'console.log("first"); process.stdin.once("data", () => { console.log("last"); process.exit(0); });';
    const running = (await shellAt(test, script)).start(place, command);
    assert.equal(await running.firstLine(), "first");
    assert.deepEqual(await running.stop(), { exitCode: 0, out: "first\nlast\n", err: "" });
  });

  it("rejects if it prints no line, if the pod does not exist, and if the connection ends", async (test) => {
    const silent = await shellAt(test, 'console.error("why")');
    await assert.rejects(silent.start(place, command).firstLine(), { message: "why" });
    await assert.rejects(silent.run({ namespace, pod: "none" }, command), {
      message: "Cannot run a command in pod e2e/none: the API server answers 404",
    });
    const server = await startServer(test);
    server.startCommand = () => {
      setTimeout(() => server.resetConnections(), 50);
      return spawn("sleep", ["60"]);
    };
    const access = { kubeconfig: "", master: server.url };
    const cut = new ExecShell(await openCredentials(dependencies, access));
    await assert.rejects(cut.run(place, command), {
      message:
        "Cannot run a command in pod e2e/p: the connection closed before the command finished",
    });
  });
});
