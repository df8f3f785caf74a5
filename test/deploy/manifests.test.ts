/** Validates all API objects under deploy/ with Kubernetes' own types. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { loadConfig } from "../../src/config/load-config.ts";
import {
  claimingService,
  hintsSlice,
  namespaceObject,
  podObject,
  roles,
  serviceObject,
  serviceRoles,
} from "../../src/e2e/objects.ts";
import {
  configOf,
  type Manifest,
  podOf,
  readManifests,
  rolloutOf,
} from "../support/container/pod.ts";
import {
  chartPath,
  everything,
  leastValues,
  leastWithConfigMap,
  presetValues,
  renderChart,
} from "./chart.ts";
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
const endpointController = ["rbac.yaml", "deployment.yaml"].flatMap((name) =>
  objectsOf(`kustomize/endpoint-controller/${name}`),
);
const notReadyTaint = objectsOf("kustomize/not-ready-taint/rbac.yaml");
const e2e = ["rbac.yaml", "job.yaml"].flatMap((name) => objectsOf(`kustomize/e2e/${name}`));
/** The objects of the acceptance test. There is no API server here to reject wrong fields. */
const appliedByE2e = [
  namespaceObject("e2e"),
  podObject({
    ...{ name: "backend-0", namespace: "e2e", nodeName: "node-1", image: "kube-ipvs:0.2.0" },
    labels: { ...roles.backend, ...roles.draining },
  }),
  ...serviceRoles.map((role) => serviceObject("e2e", role)),
  claimingService("e2e", "10.96.0.10"),
  hintsSlice("e2e", [{ address: "10.244.1.10", nodeName: "node-1", zone: "z1" }]),
].map((object) => JSON.parse(JSON.stringify(object)) as Manifest);
const sets: readonly { readonly name: string; readonly objects: readonly Manifest[] }[] = [
  ...overlays.map((name) => ({ name: `manifests/${name}.yaml`, objects: readManifests(name) })),
  { name: "monitoring", objects: monitoring },
  { name: "kustomize/endpoint-controller", objects: endpointController },
  { name: "kustomize/not-ready-taint", objects: notReadyTaint },
  { name: "kustomize/e2e", objects: e2e },
  { name: "what kube-ipvs-e2e applies", objects: appliedByE2e },
  { name: "the chart", objects: renderChart(leastValues).objects ?? [] },
  {
    name: "the chart with everything enabled",
    objects: renderChart(everything).objects ?? [],
  },
  { name: "the objects that helm test applies", objects: renderChart(everything).tests ?? [] },
  ...readdirSync(join(chartPath, "presets")).map((name) => ({
    name: `the chart with the preset ${name}`,
    objects: renderChart(presetValues(name)).objects ?? [],
  })),
  ...["iptables", "userspace"].map((mode) => ({
    name: `the chart in ${mode} mode`,
    objects:
      renderChart({ ...leastValues, config: { clusterCIDR: "10.244.0.0/16", mode } }).objects ?? [],
  })),
  {
    name: "the chart with observeOnly",
    objects: renderChart({ ...leastValues, observeOnly: true }).objects ?? [],
  },
  {
    name: "the chart with a PodMonitor and kubeadm's ConfigMap",
    objects: renderChart({ ...leastWithConfigMap, podMonitor: { enabled: true } }).objects ?? [],
  },
];

describe("objects for an API server", () => {
  for (const { name, objects } of sets) {
    it(`has Kubernetes' types and formats: ${name}`, async () => {
      assert.notEqual(objects.length, 0);
      for (const object of objects) assert.equal(await schemaProblem(object), undefined);
    });
  }

  it("have only fields that Kubernetes knows", () => {
    assert.equal(typeProblems(sets.flatMap(({ objects }) => objects)), "");
  });

  it("are rejected by this test if a field is unknown or has the wrong type", async () => {
    const object = readManifests("kubeadm").find(({ kind }) => kind === "DaemonSet");
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

/** Each DaemonSet that runs the proxy, including observers. */
const running = sets
  .filter(({ objects }) => objects.some(({ kind }) => kind === "DaemonSet"))
  .filter(({ objects }) => podOf(objects).containers[0]?.name !== "done");

const observeFlag = "--kube-ipvs-observe-only";

function isObserver({ objects }: { readonly objects: readonly Manifest[] }): boolean {
  return podOf(objects).containers[0]?.command.includes(observeFlag) ?? false;
}

const proxies = running.filter((set) => !isObserver(set));
const observers = running.filter(isObserver);
/** All except Talos, whose workloads cannot load modules. */
const prepared = proxies.filter(({ objects }) => podOf(objects).initContainers !== undefined);

/** Whether the manifest has its own configuration instead of kubeadm's. */
function hasConfiguration({ objects }: { readonly objects: readonly Manifest[] }): boolean {
  return objects.some(({ data }) => Object.hasOwn(data ?? {}, "config.conf"));
}

describe("the manifests", () => {
  for (const name of overlays) {
    it(`equal the rendered overlay: ${name}`, (test) => {
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

  for (const { name, objects } of running.filter(hasConfiguration)) {
    it(`contain a configuration that the program accepts without a warning: ${name}`, () => {
      const files = configOf(objects);
      const flags = new Map([["config", ["config.conf"]]]);
      if (isObserver({ objects })) flags.set("kube-ipvs-observe-only", ["true"]);
      const { config, notices } = loadConfig(flags, {
        readFile: (path) => files[path] ?? "",
        hostname: () => "node-1",
      });
      assert.deepEqual(
        notices.filter(({ level }) => level !== "info"),
        [],
      );
      const mounted = podOf(objects).containers[0]?.volumeMounts?.[0]?.mountPath;
      assert.deepEqual(config.objectsFrom, {
        kind: "cluster",
        kubeconfigPath: `${mounted}/kubeconfig.conf`,
      });
      const ports = podOf(objects).containers[0]?.ports?.map(({ containerPort }) => containerPort);
      assert.deepEqual(ports, [config.metricsBindAddress.port, config.healthzBindAddress?.port]);
    });
  }

  it("let no privileged container read compiled code that another container wrote", () => {
    for (const { name, objects } of prepared) {
      const [prepare] = podOf(objects).initContainers;
      assert.equal(prepare?.securityContext?.privileged, true, name);
      const mounts = prepare.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
      assert.ok(mounts.includes("/run/xtables.lock"), name);
      assert.ok(!mounts.includes("/var/cache/kube-ipvs"), name);
      const disabled = prepare.env?.find((one) => one.name === "NODE_DISABLE_COMPILE_CACHE");
      assert.equal(disabled?.value, "1", name);
      const [main] = podOf(objects).containers;
      const shared = main?.volumeMounts?.some(
        ({ mountPath }) => mountPath === "/var/cache/kube-ipvs",
      );
      assert.equal(shared, true, "the path is the one that the container writes");
    }
  });

  it("grant the same permissions everywhere", () => {
    const [first, ...others] = prepared.map(({ objects }) => {
      const { initContainers, containers } = podOf(objects);
      return [...initContainers, ...containers].map((container) => [
        container.securityContext,
        container.volumeMounts?.filter(({ name }) => name !== "extra"),
        container.startupProbe,
        container.livenessProbe,
        container.readinessProbe,
        container.env?.filter(({ name }) => name !== "EXTRA"),
      ]);
    });
    assert.equal(others.length, proxies.length - 2);
    for (const other of others) assert.deepEqual(other, first);
  });

  for (const { name, objects } of proxies) {
    it(`stop a rollout at a node that does not sync: ${name}`, () => {
      const [container] = podOf(objects).containers;
      assert.equal(container?.command.at(-1), "--kube-ipvs-wait-for-kube-proxy");
      assert.equal(container?.startupProbe?.httpGet.path, "/readyz");
      assert.equal(container?.livenessProbe?.httpGet.path, "/livez");
      assert.equal(container?.readinessProbe?.httpGet.path, "/readyz");
      const { minReadySeconds, updateStrategy } = rolloutOf(objects);
      assert.equal(minReadySeconds, 10);
      assert.deepEqual(updateStrategy, {
        type: "RollingUpdate",
        rollingUpdate: { maxUnavailable: "5%" },
      });
    });
  }
});

describe("the manifests of the observer", () => {
  it("exist as an overlay for kubeadm, and as a value of the chart", () => {
    assert.deepEqual(
      observers.map(({ name }) => name),
      ["manifests/observe.yaml", "the chart with observeOnly"],
    );
  });

  for (const { name, objects } of observers) {
    const [proxy] = podOf(readManifests("replace-kube-proxy")).containers;
    const { initContainers, containers } = podOf(objects);
    const [observer] = containers;

    it(`differ from the proxy's by one more flag, and grant no more permissions: ${name}`, () => {
      const command = proxy?.command.slice(0, -1) ?? [];
      assert.deepEqual(observer?.command, [...command, observeFlag]);
      assert.deepEqual(observer?.securityContext, proxy?.securityContext);
    });

    it(`leave the node and kube-proxy's ports unchanged: ${name}`, () => {
      assert.equal(initContainers, undefined);
      const ports = observer?.ports?.map(({ containerPort }) => containerPort);
      assert.deepEqual(ports, [10_349, 10_356]);
      assert.equal(observer?.livenessProbe, undefined);
      assert.deepEqual(observer?.readinessProbe?.httpGet, { path: "/readyz", port: "healthz" });
    });
  }

  it("share no name, label or account with the proxy, and use kubeadm's configuration", () => {
    const objects = readManifests("observe");
    const names = new Set(objects.map(({ metadata }) => metadata.name));
    assert.deepEqual([...names], ["kube-ipvs-observe"]);
    assert.match(JSON.stringify(objects), /"matchLabels":\{"k8s-app":"kube-ipvs-observe"\}/);
    assert.equal(podOf(objects).volumes[0]?.configMap?.name, "kube-proxy");
    assert.deepEqual(podOf(objects).volumes[0], podOf(readManifests("kubeadm")).volumes[0]);
  });
});

describe("the manifest that cleans up nodes", () => {
  const [first] = readManifests("replace-kube-proxy");
  const objects = readManifests("clean-up");
  const { initContainers, containers } = podOf(objects);

  it("is a DaemonSet without an account that runs only on labeled nodes, where the proxy no longer runs", () => {
    assert.deepEqual(
      objects.map(({ kind }) => kind),
      ["DaemonSet"],
    );
    assert.notEqual(objects[0]?.metadata.name, first?.metadata.name);
    assert.equal(podOf(objects).automountServiceAccountToken, false);
    const proxy = podOf(readManifests("replace-kube-proxy"));
    const { tolerations, nodeSelector, hostNetwork } = podOf(objects);
    assert.deepEqual([tolerations, hostNetwork], [proxy.tolerations, proxy.hostNetwork]);
    assert.deepEqual(nodeSelector, { ...proxy.nodeSelector, "kube-ipvs.io/proxy": "clean-up" });
  });

  it("has the proxy's capabilities for the clean-up, and none while waiting", () => {
    const [proxy] = podOf(readManifests("replace-kube-proxy")).containers;
    assert.deepEqual(initContainers[0]?.securityContext, proxy?.securityContext);
    assert.deepEqual(containers[0]?.securityContext?.capabilities, { drop: ["ALL"] });
  });
});

describe("the acceptance test's permissions", () => {
  const rolesOf = (wanted: string): readonly Role[] =>
    e2e.filter(({ kind }) => kind === wanted).map((object) => object as unknown as Role);

  it("allow no changes outside its namespace except access reviews", () => {
    const harmless = ["get", "list"];
    for (const { rules } of rolesOf("ClusterRole")) {
      for (const { resources, verbs, resourceNames } of rules) {
        const isNamed = resourceNames?.join() === "kube-ipvs-e2e";
        const isReview = resources.join() === "subjectaccessreviews";
        assert.ok(
          isNamed || isReview || verbs.every((verb) => harmless.includes(verb)),
          `${verbs}`,
        );
      }
    }
    const namespaces = rolesOf("Role").map(({ metadata }) => metadata.namespace);
    assert.deepEqual(namespaces.toSorted(), ["kube-ipvs-e2e", "kube-system"]);
  });
});

interface Role {
  readonly metadata: { readonly namespace: string };
  readonly rules: readonly {
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
    readonly resourceNames?: readonly string[];
  }[];
}
