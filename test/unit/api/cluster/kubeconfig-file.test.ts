import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { ApiError } from "../../../../src/api/api-error.ts";
import { kubeconfigOfPod } from "../../../../src/api/cluster/kubeconfig-file.ts";
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

const secret = "s3cr3t";

const complete = {
  clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
  users: [{ name: "u", user: {} }],
  contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
  "current-context": "x",
};

function nestedLists(depth: number): unknown {
  return depth === 0 ? secret : [nestedLists(depth - 1)];
}

describe("the message for an invalid kubeconfig", () => {
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
        "check --kubeconfig, or clientConnection.kubeconfig in the configuration",
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
      name: "a cluster without a server",
      content: JSON.stringify({ ...complete, clusters: [{ name: "c", cluster: {} }] }),
      want: "Cannot use kubeconfig FILE: clusters[0].cluster.server is missing",
    },
    {
      name: "a server that is not an address",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: "ftp://x" } }],
      }),
      want: 'Cannot use kubeconfig FILE: "ftp://x" is not a URL such as https://10.0.0.1:6443',
    },
    {
      name: "a password that YAML treats as an alias is not shown",
      content: "users:\n- name: u\n  user: {username: me, password: *s3cr3t}\n",
      want: "Cannot use kubeconfig FILE: line 1: Unresolved alias (the anchor must be set before the alias)",
    },
    {
      name: "a token that YAML treats as a block header is not shown",
      content: "users:\n- name: u\n  user:\n    token: |s3cr3t\n",
      want: "Cannot use kubeconfig FILE: line 4: Block scalar header includes extra characters",
    },
    {
      name: "a token next to lists nested deeper than the client library reads is not shown",
      content: JSON.stringify({
        ...complete,
        users: [{ name: "u", user: { token: secret, lists: nestedLists(200) } }],
      }),
      want: "Cannot use kubeconfig FILE: nesting exceeded maxDepth (100)",
    },
    {
      name: "a server that is a list",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: [secret] } }],
      }),
      want:
        "Cannot use kubeconfig FILE: wrong field type; must be text, a list or an object: " +
        "elt.cluster.server.replace is not a function",
    },
    {
      name: "a proxy that is not an address",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1", "proxy-url": secret } }],
      }),
      want: "Cannot use kubeconfig FILE: the proxy's address is not a URL such as http://10.0.0.1:3128",
    },
    {
      name: "groups to impersonate, which the client library does not send",
      content: JSON.stringify({
        ...complete,
        users: [{ name: "u", user: { as: "other", "as-groups": ["a"] } }],
      }),
      want: 'Cannot use kubeconfig FILE: user u has as-groups, which is not supported; use the field "as" instead',
    },
    {
      name: "a token for a server without TLS",
      content: JSON.stringify({
        ...complete,
        clusters: [{ name: "c", cluster: { server: "http://192.0.2.1:8080" } }],
        users: [{ name: "u", user: { token: secret } }],
      }),
      want:
        "Cannot use kubeconfig FILE: it would send credentials to http://192.0.2.1:8080 without TLS; " +
        "use https://, or remove the credentials",
    },
    {
      name: "a password for this machine through a proxy without TLS",
      content: JSON.stringify({
        ...complete,
        clusters: [
          {
            name: "c",
            cluster: { server: "http://127.0.0.1:1", "proxy-url": "http://192.0.2.1:3128" },
          },
        ],
        users: [{ name: "u", user: { username: "me", password: secret } }],
      }),
      want: "Cannot use kubeconfig FILE: it would send credentials to http://127.0.0.1:1 without TLS; use https://, or remove the credentials",
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
      name: "a missing certificate authority",
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
      name: "a missing token file",
      content: JSON.stringify({
        ...complete,
        users: [{ name: "u", user: { tokenFile: "token" } }],
      }),
      want:
        "Cannot get credentials for https://127.0.0.1:1: cannot read FOLDER/token: ENOENT: no such file or directory; " +
        "check the files that the kubeconfig names",
    },
    {
      name: "a missing credential plugin",
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
        "install it, or configure a different one in the kubeconfig",
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
        assert.doesNotMatch(message, /s3cr3t/);
        if (!want.endsWith(": ")) assert.equal(message, want);
        return true;
      });
    });
  }
});

describe("inside a pod", () => {
  const environment = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" };

  it("the service account is used", async (test) => {
    const folder = await folderWith(test, { token: "t", "ca.crt": "x" });
    const { object } = await kubeconfigOfPod(environment, folder);
    const [cluster] = pathOf(object, "clusters") as readonly unknown[];
    assert.equal(pathOf(cluster, "cluster", "server"), "https://[fd00::1]:443");
    assert.equal(pathOf(cluster, "cluster", "certificate-authority"), join(folder, "ca.crt"));
    const [user] = pathOf(object, "users") as readonly unknown[];
    assert.equal(pathOf(user, "user", "tokenFile"), join(folder, "token"));
  });

  it("a certificate authority is optional, but a token is required", async (test) => {
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
