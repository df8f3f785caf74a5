/** Tests that packages that the bundle reduces or loads later behave like the whole packages. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { build } from "esbuild";
import { narrowPackages } from "../../../toolchain/narrow-packages.ts";

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-narrow-"));
after(() => rmSync(folder, { recursive: true }));

/** A program that prints how a kubeconfig with this cluster and user affects a request. */
const program = `
  import { KubeConfig } from "@kubernetes/client-node";
  const { cluster, user } = JSON.parse(process.argv[2]);
  const config = new KubeConfig();
  config.loadFromString(JSON.stringify({
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  }));
  const options = {};
  await config.applyToHTTPSOptions(options);
  console.log(JSON.stringify({
    agent: options.agent?.constructor.name, authorization: options.headers?.Authorization,
  }));
`;

interface Outcome {
  readonly agent?: string;
  readonly authorization?: string;
}

async function bundle(): Promise<string> {
  const [source, file] = [join(folder, "source.mjs"), join(folder, "program.mjs")];
  writeFileSync(source, program);
  await build({
    entryPoints: [source],
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    banner: {
      js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
    },
    plugins: [narrowPackages],
  });
  return file;
}

describe("the client library in the bundle", async () => {
  const file = await bundle();

  function outcomeOf(cluster: object, user: object): Outcome {
    const given = JSON.stringify({
      cluster: { server: "https://10.0.0.1:6443", ...cluster },
      user,
    });
    const { stdout, stderr } = spawnSync(process.execPath, [file, given], { encoding: "utf8" });
    assert.equal(stderr, "");
    return JSON.parse(stdout) as Outcome;
  }

  it("runs an exec plugin", () => {
    const status = { token: "from-the-plugin" };
    const answer = {
      apiVersion: "client.authentication.k8s.io/v1",
      kind: "ExecCredential",
      status,
    };
    const exec = { apiVersion: answer.apiVersion, command: "echo", args: [JSON.stringify(answer)] };
    const outcome = outcomeOf({}, { exec });
    assert.equal(outcome.authorization, "Bearer from-the-plugin");
  });

  // The bundler may append a number to a name.
  const proxies: readonly (readonly [string, RegExp])[] = [
    ["http://proxy.example:3128", /^HttpsProxyAgent/],
    ["socks5://proxy.example:1080", /^SocksProxyAgent/],
  ];
  for (const [url, agent] of proxies) {
    it(`goes through ${url}`, () => {
      assert.match(outcomeOf({ "proxy-url": url }, {}).agent ?? "", agent);
    });
  }

  it("connects directly without a proxy", () => {
    assert.equal(outcomeOf({}, { token: "t" }).agent, "Agent");
  });
});
