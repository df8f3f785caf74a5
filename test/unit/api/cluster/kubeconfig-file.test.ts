import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { ApiError } from "../../../../src/api/api-error.ts";
import {
  kubeconfigOfPod,
  readKubeconfigFile,
} from "../../../../src/api/cluster/kubeconfig-file.ts";
import { openConnection } from "../../../../src/api/cluster/open-connection.ts";
import { pathOf } from "../../../../src/api/decode/fields.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

async function folderWith(
  test: TestContext,
  files: Readonly<Record<string, string>>,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "kubeconfig-"));
  test.after(() => rm(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

const complete = {
  clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
  users: [{ name: "u", user: {} }],
  contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
  "current-context": "x",
};

function nestedLists(depth: number): unknown {
  return depth === 0 ? "s3cr3t" : [nestedLists(depth - 1)];
}

describe("the message for a kubeconfig that cannot be used", () => {
  const cases: readonly {
    readonly name: string;
    readonly content: string | undefined;
    readonly want: string;
  }[] = [
    {
      name: "no such file",
      content: undefined,
      want:
        "Cannot read kubeconfig FILE: ENOENT: no such file or directory; " +
        "check --kubeconfig, or clientConnection.kubeconfig of the configuration",
    },
    {
      name: "broken YAML",
      content: "clusters:\n- name: [\n",
      want: "Cannot use kubeconfig FILE: line 3: ",
    },
    {
      name: "an empty file",
      content: "",
      want: "Cannot use kubeconfig FILE: it has no current context that names a cluster",
    },
    {
      name: "no current context",
      content: JSON.stringify({ ...complete, "current-context": "other" }),
      want: "Cannot use kubeconfig FILE: it has no current context that names a cluster",
    },
    {
      name: "a cluster without server",
      content: JSON.stringify({ ...complete, clusters: [{ name: "c", cluster: {} }] }),
      want: "Cannot use kubeconfig FILE: clusters[0].cluster.server is missing",
    },
    {
      name: "a server that is no address",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: "ftp://x" } }],
      }),
      want: 'Cannot use kubeconfig FILE: "ftp://x" is not a URL such as https://10.0.0.1:6443',
    },
    {
      name: "a password that YAML takes for an alias: it is not told",
      content: "users:\n- name: u\n  user: {username: me, password: *s3cr3t}\n",
      want: "Cannot use kubeconfig FILE: line 1: Unresolved alias (the anchor must be set before the alias)",
    },
    {
      name: "a token that YAML takes for the head of a block: it is not told",
      content: "users:\n- name: u\n  user:\n    token: |s3cr3t\n",
      want: "Cannot use kubeconfig FILE: line 4: Block scalar header includes extra characters",
    },
    {
      name: "a token beside lists nested deeper than the client library reads: it is not told",
      content: JSON.stringify({
        ...complete,
        users: [{ name: "u", user: { token: "s3cr3t", lists: nestedLists(200) } }],
      }),
      want: "Cannot use kubeconfig FILE: nesting exceeded maxDepth (100)",
    },
    {
      name: "a token that YAML takes for a number: it is not told",
      content: JSON.stringify({ ...complete, users: [{ name: "u", user: { token: 12_345 } }] }),
      want: "Cannot use kubeconfig FILE: users[0].user.token must be a string",
    },
    {
      name: "a server that is a number",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: 6443 } }],
      }),
      want: "Cannot use kubeconfig FILE: clusters[0].cluster.server must be a string",
    },
    {
      name: "a name of the server's certificate that is a number",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1", "tls-server-name": 1 } }],
      }),
      want: "Cannot use kubeconfig FILE: clusters[0].cluster.tls-server-name must be a string",
    },
    {
      name: "clusters that are no list",
      content: JSON.stringify({ ...complete, clusters: { name: "c" } }),
      want: "Cannot use kubeconfig FILE: clusters must be a list",
    },
    {
      name: "a server of control characters",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: "\u001b[2J" } }],
      }),
      want: 'Cannot use kubeconfig FILE: "\\u{1b}[2J" is not a URL such as https://10.0.0.1:6443',
    },
    {
      name: "a certificate authority that is not there",
      content: JSON.stringify({
        ...complete,
        clusters: [
          { name: "c", cluster: { server: "https://127.0.0.1:1", "certificate-authority": "ca" } },
        ],
      }),
      want:
        "Cannot get credentials for https://127.0.0.1:1: cannot read FOLDER/ca: ENOENT: no such file or directory; " +
        "check the files that the kubeconfig names",
    },
    {
      name: "a token file that is not there",
      content: JSON.stringify({
        ...complete,
        users: [{ name: "u", user: { tokenFile: "token" } }],
      }),
      want:
        "Cannot read token file FOLDER/token: ENOENT: no such file or directory; " +
        "check the kubeconfig or the service account that names it",
    },
    {
      name: "a credential plugin that is not there",
      content: JSON.stringify({
        ...complete,
        users: [
          {
            name: "u",
            user: {
              exec: {
                apiVersion: "client.authentication.k8s.io/v1",
                ...{ command: "/none/plugin", interactiveMode: "Never" },
              },
            },
          },
        ],
      }),
      want:
        "Cannot get credentials for https://127.0.0.1:1: cannot start the credential plugin /none/plugin: ENOENT; " +
        "install it, or name another one in the kubeconfig",
    },
  ];
  for (const { name, content, want } of cases) {
    it(name, async (test) => {
      const folder = await folderWith(test, content === undefined ? {} : { config: content });
      const kubeconfig = join(folder, "config");
      const opening = openConnection(
        { clock: new FakeClock(), environment: {} },
        { kubeconfig, master: "", userAgent: "test" },
      );
      await assert.rejects(opening, (error: unknown) => {
        assert.ok(error instanceof ApiError);
        const message = error.message.replaceAll(kubeconfig, "FILE").replaceAll(folder, "FOLDER");
        assert.equal(message.slice(0, want.length), want);
        if (!want.endsWith(": ")) assert.equal(message, want);
        return true;
      });
    });
  }
});

describe("a kubeconfig file", () => {
  it("may name token files, from its own folder", async (test) => {
    const users = [
      { name: "a", user: { tokenFile: "token" } },
      { name: "b", user: { tokenFile: "/var/token" } },
      { name: "c", user: { token: "x" } },
    ];
    const folder = await folderWith(test, { config: JSON.stringify({ users }) });
    const { tokenFiles } = await readKubeconfigFile(join(folder, "config"));
    assert.deepEqual(
      [...tokenFiles],
      [
        ["a", join(folder, "token")],
        ["b", "/var/token"],
      ],
    );
  });
});

describe("inside a pod", () => {
  const environment = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" };

  it("the service account is used", async (test) => {
    const folder = await folderWith(test, { token: "t", "ca.crt": "x" });
    const { object, tokenFiles } = await kubeconfigOfPod(environment, folder);
    const [cluster] = pathOf(object, "clusters") as readonly unknown[];
    assert.equal(pathOf(cluster, "cluster", "server"), "https://[fd00::1]:443");
    assert.equal(pathOf(cluster, "cluster", "certificate-authority"), join(folder, "ca.crt"));
    assert.deepEqual([...tokenFiles.values()], [join(folder, "token")]);
  });

  it("a certificate authority may be missing, a token not", async (test) => {
    const folder = await folderWith(test, {});
    await assert.rejects(kubeconfigOfPod(environment, folder), {
      message:
        `Cannot read token ${folder}/token: ENOENT: no such file or directory; ` +
        "set automountServiceAccountToken for the pod, or set --kubeconfig",
    });
    await writeFile(join(folder, "token"), "t");
    const { object } = await kubeconfigOfPod(environment, folder);
    const [cluster] = pathOf(object, "clusters") as readonly unknown[];
    assert.equal(pathOf(cluster, "cluster", "certificate-authority"), undefined);
  });

  it("both variables are needed", async () => {
    await assert.rejects(kubeconfigOfPod({ KUBERNETES_SERVICE_HOST: "10.96.0.1" }), {
      message:
        /^Cannot find an API server: neither --kubeconfig nor --master is set, .*--manifests/,
    });
  });
});
