/** Everything under deploy/ that goes to an API server, judged by Kubernetes' own types. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { loadConfig } from "../../src/config/load-config.ts";
import { configOf, type Manifest, podOf, readManifests } from "../support/container/pod.ts";
import { leastValues, renderChart } from "./chart.ts";
import { schemaProblem, typeProblems } from "./kubernetes-models.ts";

const deploy = join(import.meta.dirname, "../../deploy");
const overlays = readdirSync(join(deploy, "kustomize/overlays"));

function objectsOf(path: string): readonly Manifest[] {
  const documents = parseAllDocuments(readFileSync(join(deploy, path), "utf8"));
  return documents.map((document) => document.toJS() as Manifest);
}

const monitoring = ["pod-monitor.yaml", "prometheus-rule.yaml"].flatMap((name) =>
  objectsOf(`monitoring/${name}`),
);
const sets: readonly { readonly name: string; readonly objects: readonly Manifest[] }[] = [
  ...overlays.map((name) => ({ name: `manifests/${name}.yaml`, objects: readManifests(name) })),
  { name: "monitoring", objects: monitoring },
  { name: "the chart", objects: renderChart(leastValues).objects ?? [] },
  {
    name: "the chart with a PodMonitor and kubeadm's ConfigMap",
    objects:
      renderChart({ existingConfigMap: "kube-proxy", podMonitor: { enabled: true } }).objects ?? [],
  },
];

describe("what goes to an API server", () => {
  for (const { name, objects } of sets) {
    it(`has the types and formats of Kubernetes: ${name}`, async () => {
      assert.notEqual(objects.length, 0);
      for (const object of objects) assert.equal(await schemaProblem(object), undefined);
    });
  }

  it("has no field that Kubernetes does not know", () => {
    assert.equal(typeProblems(sets.flatMap(({ objects }) => objects)), "");
  });

  it("would be found out otherwise", async () => {
    const [object] = readManifests("kubeadm");
    assert.ok(object !== undefined);
    const wrong = structuredClone(object) as unknown as {
      spec: { template: { spec: Record<string, unknown> } };
    };
    wrong.spec.template.spec["hostNetwrk"] = true;
    assert.match(typeProblems([wrong as unknown as Manifest]), /hostNetwrk/);
    wrong.spec.template.spec["hostNetwork"] = "yes";
    assert.match((await schemaProblem(wrong as unknown as Manifest)) ?? "", /hostNetwork/);
  });
});

function isConfigured({ kind, data }: Manifest): boolean {
  return kind === "ConfigMap" && data !== undefined;
}

describe("the manifests", () => {
  for (const name of overlays) {
    it(`are what kustomize makes of the overlay: ${name}`, (test) => {
      const path = join(deploy, "kustomize/overlays", name);
      const { status, stdout, stderr } = spawnSync("kubectl", ["kustomize", path], {
        encoding: "utf8",
      });
      const version = spawnSync("kubectl", ["version", "--client"], { encoding: "utf8" }).stdout;
      if (!/^Kustomize Version: v[5-9]/m.test(version ?? "")) {
        test.skip("no kubectl with kustomize 5 here");
        return;
      }
      assert.equal(status, 0, stderr);
      assert.equal(stdout, readFileSync(join(deploy, `manifests/${name}.yaml`), "utf8"));
    });
  }

  for (const { name, objects } of sets.filter((set) => set.objects.some(isConfigured))) {
    it(`bring a configuration that the program takes without a word: ${name}`, () => {
      const files = configOf(objects);
      const { config, notices } = loadConfig(new Map([["config", ["config.conf"]]]), {
        readFile: (path) => files[path] ?? "",
        hostname: () => "node-1",
      });
      assert.deepEqual(notices, []);
      const mounted = podOf(objects).containers[0]?.volumeMounts?.[0]?.mountPath;
      assert.deepEqual(config.objectsFrom, {
        kind: "cluster",
        kubeconfigPath: `${mounted}/kubeconfig.conf`,
      });
      const ports = podOf(objects).containers[0]?.ports?.map(({ containerPort }) => containerPort);
      assert.deepEqual(ports, [config.metricsBindAddress.port, config.healthzBindAddress?.port]);
    });
  }

  it("grant one and the same everywhere", () => {
    const [first, ...others] = sets
      .map(({ objects }) => objects)
      .filter((objects) => objects.some(({ kind }) => kind === "DaemonSet"))
      .map((objects) => {
        const { initContainers, containers } = podOf(objects);
        return [...initContainers, ...containers].map((container) => [
          container.securityContext,
          container.volumeMounts,
          container.livenessProbe,
          container.env,
        ]);
      });
    assert.equal(others.length, 5);
    for (const other of others) assert.deepEqual(other, first);
  });
});
