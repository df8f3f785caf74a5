import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { loadConfig } from "../../../src/config/load-config.ts";
import { peerArguments, peerTitle } from "../../support/peer.ts";

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-peer-"));
after(() => rmSync(folder, { recursive: true }));

function program(name: string, script: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

describe("another proxy", () => {
  for (const mode of ["ipvs", "iptables"] as const) {
    it(`gets a configuration for ${mode} mode that kube-proxy accepts`, () => {
      const template = " other-proxy  --config={config} -v=1 ";
      const argv = peerArguments(template, { server: "http://10.200.0.1:6443", mode, folder });
      const path = join(folder, "config.yaml");
      assert.deepEqual(argv, ["other-proxy", `--config=${path}`, "-v=1"]);
      const { config, notices } = loadConfig(new Map([["config", [path]]]), {
        readFile: (name) => readFileSync(name, "utf8"),
        hostname: () => "",
      });
      const ignored = notices.map(({ keys }) => keys?.["setting"]);
      assert.deepEqual(ignored, ["clientConnection.contentType"]);
      assert.equal(config.mode, mode);
      const kubeconfig = readFileSync(join(folder, "kubeconfig"), "utf8");
      assert.match(kubeconfig, /server: "http:\/\/10\.200\.0\.1:6443"/);
    });
  }

  it("is named with the version that it prints, and without its folder", () => {
    const path = program("kube-proxy", 'echo "Kubernetes v1.36.2"; echo more');
    assert.equal(peerTitle(`${path} --config={config}`), "kube-proxy (Kubernetes v1.36.2)");
  });

  it("is named without a version if it prints none", () => {
    assert.equal(peerTitle(program("other-proxy", "echo usage; exit 2")), "other-proxy");
    assert.equal(peerTitle("/nowhere/third-proxy"), "third-proxy");
  });
});
