/** The values that the chart accepts and rejects, and the rendered objects. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { allFields } from "../../src/config/fields.ts";
import { configOf, type Manifest, podOf, readManifests } from "../support/container/pod.ts";
import {
  chartPath,
  everything,
  leastValues,
  leastWithConfigMap,
  presetValues,
  problemsOf,
  readChartFile,
  renderChart,
  type Values,
} from "./chart.ts";

const defaults = readChartFile("values.yaml") as Values;
const schema = readChartFile("values.schema.json") as { readonly properties: object };
describe("the values schema", () => {
  it("knows every value in values.yaml, and no others except Helm's own", () => {
    const known = Object.keys(schema.properties).filter((name) => name !== "global");
    assert.deepEqual(known.toSorted(), Object.keys(defaults).toSorted());
  });

  it("knows each configuration field", () => {
    const { propertyNames, properties } = (
      schema as unknown as {
        readonly properties: {
          readonly config: {
            readonly propertyNames: { readonly enum: readonly string[] };
            readonly properties: Readonly<
              Record<string, { readonly propertyNames?: { readonly enum: readonly string[] } }>
            >;
          };
        };
      }
    ).properties.config;
    for (const { path } of allFields) {
      const [section = "", field] = path.split(".");
      assert.ok(propertyNames.enum.includes(section), path);
      if (field !== undefined)
        assert.ok(properties[section]?.propertyNames?.enum.includes(field), path);
    }
  });

  it("accepts every preset", () => {
    const presets = readdirSync(join(chartPath, "presets"));
    assert.ok(presets.length >= 6);
    for (const name of presets) assert.deepEqual(problemsOf(presetValues(name)), [], name);
  });

  it("accepts the defaults with an API server or a ConfigMap", () => {
    assert.deepEqual(problemsOf(leastValues), []);
    assert.deepEqual(problemsOf(leastWithConfigMap), []);
    assert.deepEqual(problemsOf(everything), []);
  });

  it("requires no pod network if the node's own pods are detected in another way", () => {
    const config = { detectLocalMode: "NodeCIDR" };
    assert.deepEqual(problemsOf({ ...leastValues, config }), []);
    assert.equal(renderChart({ ...leastValues, config }).error, "");
  });

  const refused: readonly { readonly values: Values; readonly want: string }[] = [
    { values: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } }, want: "" },
    { values: { readinessProbe: { httpGet: {} } }, want: "/readinessProbe" },
    { values: { extraArgs: ["v=2"] }, want: "/extraArgs/0" },
    {
      values: { prometheusRule: { runbookBaseUrl: "docs" } },
      want: "/prometheusRule/runbookBaseUrl",
    },
    { values: { apiServer: "10.0.0.1:6443" }, want: "/apiServer" },
    { values: { capabilities: ["NET_RAW"] }, want: "/capabilities" },
    { values: { capabilities: ["NET_ADMIN"] }, want: "/capabilities" },
    { values: { capabilities: ["NET_ADMIN", "SYS_ADMIN"] }, want: "/capabilities/1" },
    { values: { seccompProfile: { type: "Unconfined" } }, want: "/seccompProfile/type" },
    { values: { seccompProfile: { type: "Localhost" } }, want: "/seccompProfile" },
    { values: { config: { mode: "" } }, want: "/config/mode" },
    { values: { config: { mode: "nftables" } }, want: "/config/mode" },
    { values: { config: { metricsBindAddress: "0.0.0.0" } }, want: "/config/metricsBindAddress" },
    { values: { image: { repository: "r", digest: "sha256:12" } }, want: "/image/digest" },
    { values: { nodeselector: {} }, want: "" },
    // The chart's own labels, of which the selector consists, and its own annotation.
    { values: { commonLabels: { "app.kubernetes.io/name": "proxy" } }, want: "/commonLabels" },
    { values: { podLabels: { "k8s-app": "kube-proxy" } }, want: "/podLabels" },
    { values: { podAnnotations: { "checksum/config": "" } }, want: "/podAnnotations" },
    { values: { podMonitor: { scrapetimeout: "5s" } }, want: "/podMonitor" },
    { values: { endpointController: { enable: true } }, want: "/endpointController" },
    { values: { updateStrategy: { maxUnavailable: 1 } }, want: "/updateStrategy" },
    { values: { config: { clusterCidr: "10.244.0.0/16" } }, want: "/config" },
    { values: { config: { ipvs: { strictArp: true } } }, want: "/config/ipvs" },
    { values: { extraPodSpec: { tolerations: [] } }, want: "/extraPodSpec" },
    { values: { verbosity: "4" }, want: "/verbosity" },
  ];
  for (const { values, want } of refused) {
    it(`rejects ${JSON.stringify(values)}`, () => {
      assert.ok(problemsOf({ ...leastValues, ...values }).includes(want));
      const { objects, error } = renderChart({ ...leastValues, ...values });
      assert.equal(objects, undefined);
      assert.match(error, /^values\.schema\.json rejects /);
    });
  }
});

// The templates check these values instead of the schema, whose messages would not say what to set.
describe("the chart, rendered", () => {
  it("requires an API server, and says so", () => {
    assert.match(renderChart({ ...leastValues, apiServer: "" }).error, /apiServer is needed/);
  });

  it("requires an image repository, and says so", () => {
    for (const image of [{}, { repository: "" }, { digest: `sha256:${"0".repeat(64)}` }]) {
      const { error } = renderChart({ ...leastValues, image });
      assert.match(
        error,
        /image\.repository is needed: the repository to which you pushed the image/,
      );
    }
  });

  it("requires the pod network, and says so", () => {
    const { error } = renderChart({ ...leastValues, config: {} });
    assert.match(error, /config\.clusterCIDR is needed/);
  });

  it("requires a stop delay below the pod's grace period, and says so", () => {
    const error = (stopDelay: string, terminationGracePeriodSeconds: number | null): string => {
      const config = { clusterCIDR: "10.244.0.0/16", kubeIpvs: { stopDelay } };
      return renderChart({ ...leastValues, config, terminationGracePeriodSeconds }).error;
    };
    for (const [delay, grace] of [["30s", null] as const, ["60s", 60] as const])
      assert.match(error(delay, grace), /terminationGracePeriodSeconds \(default 30\) must be/);
    assert.match(error("1m", 90), /stopDelay must be in whole seconds/);
    for (const [delay, grace] of [["29s", null] as const, ["60s", 90] as const])
      assert.equal(error(delay, grace), "");
  });

  it("merges the given configuration into its own", () => {
    const config = {
      clusterCIDR: "10.244.0.0/16",
      ipvs: { scheduler: "lc" },
      metricsBindAddress: "0.0.0.0:20249",
    };
    const { objects = [], text } = renderChart({ ...leastValues, config });
    const file = configOf(objects)["config.conf"] ?? "";
    assert.match(file, /^mode: ipvs$/m);
    assert.match(file, /^clusterCIDR: 10\.244\.0\.0\/16$/m);
    assert.match(file, /^ipvs:\n {2}scheduler: lc$/m);
    assert.equal(podOf(objects).containers[0]?.ports?.[0]?.containerPort, 20_249);
    assert.doesNotMatch(text, /Only the node itself can read metrics/);
    assert.match(renderChart(leastValues).text, /Only the node itself can read metrics/);
  });

  it("rolls out when the configuration changes", () => {
    const sum = (values: Values): string | undefined =>
      /checksum\/config: (\S+)/.exec(renderChart({ ...leastValues, ...values }).text)?.[1];
    assert.equal(sum({}), sum({}));
    assert.notEqual(sum({}), sum({ config: { ipvs: { strictARP: true } } }));
  });

  it("rolls out when an existing ConfigMap changes", () => {
    const sum = (content: string): string | undefined => {
      const cluster = { "ConfigMap/kube-proxy": { data: { "config.conf": content } } };
      const { text } = renderChart(leastWithConfigMap, "kube-ipvs", cluster);
      return /checksum\/config: (\S+)/.exec(text)?.[1];
    };
    assert.equal(sum("mode: ipvs"), sum("mode: ipvs"));
    assert.notEqual(sum("mode: ipvs"), sum("mode: iptables"));
  });

  it("runs helm test with the permissions in deploy/kustomize/e2e", () => {
    const { tests = [] } = renderChart({ ...leastValues, tests: { args: ["--nodes=5"] } }, "edge");
    const rights = readFileSync(join(chartPath, "../../kustomize/e2e/rbac.yaml"), "utf8");
    assert.equal(tests.length, rights.split("\n---\n").length + 1);
    const job = JSON.stringify(tests.at(-1));
    for (const text of [
      '"--daemon-selector=app.kubernetes.io/instance=edge","--nodes=5"',
      '"image":"registry.example/kube-ipvs:',
    ]) {
      assert.ok(job.includes(text), job);
    }
    assert.deepEqual(renderChart({ ...leastValues, tests: { enabled: false } }).tests, []);
  });

  it("gives each container its resources, and adds extra containers and pod fields", () => {
    const [pod] = (
      renderChart({
        ...leastValues,
        initResources: { limits: { memory: "64Mi" } },
        extraContainers: [{ name: "tls", image: "tls" }],
        extraPodSpec: { runtimeClassName: "runc" },
      }).objects ?? []
    ).filter(({ kind }) => kind === "DaemonSet");
    const text = JSON.stringify(pod);
    assert.match(text, /"name":"prepare-node".*"limits":\{"memory":"64Mi"/);
    assert.match(text, /"name":"kube-ipvs",.*"resources":\{"requests"/);
    assert.match(text, /"name":"tls"/);
    assert.match(text, /"runtimeClassName":"runc"/);
  });

  it("uses an existing ConfigMap and account instead of its own", () => {
    const { objects = [] } = renderChart({
      ...leastWithConfigMap,
      serviceAccount: { create: false, name: "kube-proxy" },
      rbac: { create: false },
      appLabel: "kube-proxy",
    });
    assert.deepEqual(
      objects.map(({ kind }) => kind),
      ["DaemonSet", "DaemonSet"],
    );
    assert.equal(podOf(objects).volumes[0]?.configMap?.name, "kube-proxy");
  });

  it("omits the init container, and grants only the listed capabilities", () => {
    const { objects = [] } = renderChart({
      ...leastValues,
      prepareNode: false,
      capabilities: ["NET_ADMIN", "NET_RAW", "SYS_MODULE"],
      verbosity: 3,
    });
    const { initContainers, containers } = podOf(objects);
    assert.equal(initContainers, undefined);
    const granted = containers[0]?.securityContext?.capabilities?.add;
    assert.deepEqual(granted, ["NET_ADMIN", "NET_RAW", "SYS_MODULE"]);
    assert.equal(containers[0]?.command.at(-2), "-v=3");
  });

  it("uses a seccomp profile on the node", () => {
    const seccompProfile = { type: "Localhost", localhostProfile: "kube-ipvs.json" };
    assert.deepEqual(problemsOf({ ...leastValues, seccompProfile }), []);
    const { objects = [] } = renderChart({ ...leastValues, seccompProfile });
    assert.deepEqual(podOf(objects).containers[0]?.securityContext?.seccompProfile, seccompProfile);
  });

  it("names an image by its digest if one is given", () => {
    const digest = `sha256:${"0".repeat(64)}`;
    const { text } = renderChart({ ...leastValues, image: { repository: "r", digest } });
    assert.match(text, new RegExp(`image: r@${digest}`));
  });

  it("binds the account to the proxy's role, unless set otherwise", () => {
    const kinds = (values: Values): readonly string[] =>
      (renderChart({ ...leastValues, ...values }).objects ?? []).map(({ kind }) => kind);
    const others = ["ConfigMap", "DaemonSet", "DaemonSet", "ServiceAccount"];
    assert.deepEqual(kinds({}), ["ClusterRoleBinding", ...others]);
    assert.deepEqual(kinds({ rbac: { create: false } }), others);
  });

  it("may patch Nodes only to remove the taint", () => {
    const granted = (values: Values): readonly unknown[] =>
      (renderChart({ ...leastValues, ...values }).objects ?? [])
        .filter(({ kind }) => kind === "ClusterRole")
        .map((role) => (role as unknown as { readonly rules: unknown }).rules);
    assert.deepEqual(granted({}), []);
    assert.deepEqual(granted({ removeNotReadyTaint: true, observeOnly: true }), []);
    assert.deepEqual(granted({ removeNotReadyTaint: true, rbac: { create: false } }), []);
    assert.deepEqual(granted({ removeNotReadyTaint: true }), [
      [{ apiGroups: [""], resources: ["nodes"], verbs: ["patch"] }],
    ]);
    const { objects = [] } = renderChart({ ...leastValues, removeNotReadyTaint: true });
    const { initContainers = [], containers } = podOf(objects);
    const flag = "--kube-ipvs-remove-not-ready-taint";
    assert.ok(containers[0]?.command.includes(flag));
    assert.equal(initContainers[0]?.command.includes(flag), false);
  });

  it("probes the addresses where the program listens", () => {
    for (const [healthzBindAddress, host] of [
      ["127.0.0.1:10256", "127.0.0.1"],
      ["[::1]:10256", "::1"],
    ]) {
      const config = { clusterCIDR: "10.244.0.0/16", healthzBindAddress };
      const [container] = podOf(renderChart({ ...leastValues, config }).objects ?? []).containers;
      const httpGet = { port: "healthz", host };
      assert.deepEqual(container?.livenessProbe?.httpGet, { ...httpGet, path: "/livez" });
      assert.deepEqual(container?.readinessProbe?.httpGet, { ...httpGet, path: "/readyz" });
    }
  });
});

interface WithSelector {
  readonly spec: { readonly selector: { readonly matchLabels: object } };
}

describe("pod fields", () => {
  const podFieldsOf = (values: Values): Readonly<Record<string, unknown>> =>
    podOf(renderChart({ ...leastValues, ...values }).objects ?? []) as unknown as Readonly<
      Record<string, unknown>
    >;

  it("that the chart itself writes are rejected in extraPodSpec, because a second one would be ambiguous", () => {
    const { extraPodSpec: _, ...values } = everything;
    const own = Object.keys(podFieldsOf(values));
    assert.ok(own.includes("imagePullSecrets") && own.includes("terminationGracePeriodSeconds"));
    for (const name of own) {
      const problems = problemsOf({ ...leastValues, extraPodSpec: { [name]: "" } });
      assert.ok(problems.includes("/extraPodSpec"), name);
    }
  });

  it("include additional init containers, with and without the chart's own", () => {
    const extraInitContainers = [{ name: "wait-for-network", image: "busybox" }];
    const namesOf = (values: Values): readonly string[] =>
      podOf(
        renderChart({ ...leastValues, extraInitContainers, ...values }).objects ?? [],
      ).initContainers.map(({ name }) => name);
    assert.deepEqual(namesOf({}), ["prepare-node", "wait-for-network"]);
    assert.deepEqual(namesOf({ prepareNode: false }), ["wait-for-network"]);
    assert.deepEqual(namesOf({ observeOnly: true }), ["wait-for-network"]);
    assert.ok(problemsOf({ ...leastValues, extraInitContainers: [{}] }).length > 0);
  });
});

describe("revisionHistoryLimit", () => {
  const limitOf = (revisionHistoryLimit: number | null): unknown => {
    const { objects = [], error } = renderChart({ ...leastValues, revisionHistoryLimit });
    const found = objects.find(({ kind }) => kind === "DaemonSet");
    assert.ok(found !== undefined, error);
    return (found["spec"] as { readonly revisionHistoryLimit?: number }).revisionHistoryLimit;
  };

  it("can be 0, and is Kubernetes' default if it is not set", () => {
    assert.deepEqual([limitOf(0), limitOf(3), limitOf(null)], [0, 3, undefined]);
  });
});

describe("NOTES.txt", () => {
  const notesOf = (values: Values): string =>
    renderChart({ ...leastValues, ...values })
      .text.split(/^---$/m)
      .filter((part) => part.includes("# Source: NOTES.txt"))
      .join("");

  it("recommends the secure metrics server if only the node can read metrics", () => {
    assert.match(notesOf({}), /Only the node itself can read metrics.*secureMetrics\.secretName/s);
    assert.doesNotMatch(notesOf({}), /0\.0\.0\.0/);
    assert.doesNotMatch(notesOf({ secureMetrics: { secretName: "tls" } }), /can read metrics/);
  });
});

describe("names and labels", () => {
  /** The DaemonSet's name and immutable selector. */
  function namesOf(values: Values, release?: string): readonly [string, object] {
    const { objects = [] } = renderChart({ ...leastValues, ...values }, release);
    const found = objects.find(({ kind }) => kind === "DaemonSet");
    const { spec } = found as unknown as WithSelector;
    return [found?.metadata.name ?? "", spec.selector.matchLabels];
  }
  const selector = (name: string, instance: string): object => ({
    "app.kubernetes.io/name": name,
    "app.kubernetes.io/instance": instance,
  });

  it("follow the release unless they are overridden", () => {
    assert.deepEqual(namesOf({}), ["kube-ipvs", selector("kube-ipvs", "kube-ipvs")]);
    assert.deepEqual(namesOf({}, "edge"), ["edge-kube-ipvs", selector("kube-ipvs", "edge")]);
    assert.deepEqual(namesOf({ nameOverride: "ipvs" }, "edge"), [
      "edge-ipvs",
      selector("ipvs", "edge"),
    ]);
    assert.equal(namesOf({ fullnameOverride: "proxy" }, "edge")[0], "proxy");
  });

  it("do not change the selector when the pods get other labels", () => {
    assert.deepEqual(namesOf({ appLabel: "kube-proxy", podLabels: { a: "b" } }), namesOf({}));
  });
});

describe("monitoring from the chart", () => {
  const of = (kind: string, values: Values): Manifest => {
    const { objects = [], error } = renderChart({ ...leastValues, ...values });
    const found = objects.find((object) => object.kind === kind);
    assert.ok(found !== undefined, error);
    return found;
  };
  const labelsOf = ({ metadata }: Manifest): Readonly<Record<string, string>> =>
    (metadata as unknown as { readonly labels: Readonly<Record<string, string>> }).labels;

  it("has the additional labels, by which the Prometheus operator selects it", () => {
    const value = { enabled: true, additionalLabels: { release: "prometheus" } };
    for (const [kind, name] of [
      ["PodMonitor", "podMonitor"],
      ["ServiceMonitor", "serviceMonitor"],
      ["PrometheusRule", "prometheusRule"],
    ] as const) {
      assert.equal(labelsOf(of(kind, { [name]: value }))["release"], "prometheus", kind);
    }
  });

  const secretName = "metrics-tls";
  const tokenSecret = { name: "prometheus", key: "token" };

  it("scrapes with TLS and a token if there is a secure metrics server", () => {
    const secureMetrics = { secretName, tlsConfig: { serverName: "kube-ipvs" } };
    const values = { serviceMonitor: { enabled: true }, secureMetrics };
    const endpointOf = (object: Manifest, list: string): unknown =>
      (object["spec"] as Readonly<Record<string, readonly unknown[]>>)[list]?.[0];
    const secure = {
      port: "secure-metrics",
      scheme: "https",
      tlsConfig: { serverName: "kube-ipvs" },
    };
    const {
      interval: _,
      relabelings: __,
      ...service
    } = endpointOf(of("ServiceMonitor", values), "endpoints") as Readonly<Record<string, unknown>>;
    const bearerTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    assert.deepEqual(service, { ...secure, bearerTokenFile });
    const { ports } = of("Service", values)["spec"] as { readonly ports: readonly unknown[] };
    assert.deepEqual(ports, [
      { name: "secure-metrics", port: 10261, targetPort: "secure-metrics" },
    ]);
    const pods = of("PodMonitor", {
      podMonitor: { enabled: true },
      secureMetrics: { ...secureMetrics, tokenSecret },
    });
    const {
      interval: ___,
      relabelings: ____,
      ...pod
    } = endpointOf(pods, "podMetricsEndpoints") as Readonly<Record<string, unknown>>;
    assert.deepEqual(pod, { ...secure, authorization: { credentials: tokenSecret } });
    const { error = "" } = renderChart({
      ...leastValues,
      podMonitor: { enabled: true },
      secureMetrics,
    });
    assert.match(error, /secureMetrics\.tokenSecret is needed/);
  });

  it("mounts the certificate and grants reviews only for a secure metrics server", () => {
    const { objects = [] } = renderChart({ ...leastValues, secureMetrics: { secretName } });
    const { initContainers = [], containers, volumes = [] } = podOf(objects);
    const flag = "--kube-ipvs-secure-metrics-bind-address=0.0.0.0:10261";
    assert.ok(containers[0]?.command.includes(flag));
    assert.equal(initContainers[0]?.command.includes(flag), false);
    assert.ok(volumes.some(({ name }) => name === "secure-metrics"));
    const roles = (given: Values): readonly unknown[] =>
      (renderChart({ ...leastValues, ...given }).objects ?? [])
        .filter(({ kind }) => kind === "ClusterRoleBinding")
        .map(
          (one) => (one as unknown as { readonly roleRef: { readonly name: string } }).roleRef.name,
        );
    assert.deepEqual(roles({ secureMetrics: { secretName } }).toSorted(), [
      "system:auth-delegator",
      "system:node-proxier",
    ]);
    assert.deepEqual(roles({}), ["system:node-proxier"]);
    assert.deepEqual(roles({ secureMetrics: { secretName }, rbac: { create: false } }), []);
  });

  it("has the rules of deploy/monitoring, for its own job and with links to its runbooks", () => {
    const runbookBaseUrl = "https://git.example/kube-ipvs/";
    const { spec } = of("PrometheusRule", {
      prometheusRule: { enabled: true, runbookBaseUrl },
      podMonitor: { job: "proxies" },
    });
    const original = parse(
      readFileSync(join(chartPath, "../../monitoring/prometheus-rule.yaml"), "utf8"),
    ) as { readonly spec: object };
    const expected = JSON.stringify(original.spec)
      .replaceAll("docs/troubleshooting", `${runbookBaseUrl}docs/troubleshooting`)
      .replaceAll('job=\\"kube-proxy\\"', 'job=\\"proxies\\"');
    assert.deepEqual(spec, JSON.parse(expected));
  });

  it("has the dashboard of deploy/monitoring", () => {
    const { data } = of("ConfigMap", {
      ...leastWithConfigMap,
      dashboard: { enabled: true },
    }) as unknown as { readonly data: Readonly<Record<string, string>> };
    const original = readFileSync(join(chartPath, "../../monitoring/dashboard.json"), "utf8");
    assert.deepEqual(JSON.parse(data["kube-ipvs.json"] ?? ""), JSON.parse(original));
  });
});

describe("the chart with observeOnly", () => {
  it("listens on different ports than kube-proxy, regardless of the configuration", () => {
    const config = { clusterCIDR: "10.244.0.0/16", metricsBindAddress: "0.0.0.0:10249" };
    const values = { ...leastValues, config, observeOnly: true };
    assert.deepEqual(problemsOf(values), []);
    const { objects = [], text } = renderChart(values);
    assert.doesNotMatch(configOf(objects)["config.conf"] ?? "", /1024[0-9]|1025[0-9]/);
    assert.match(text, /changes nothing/);
    assert.doesNotMatch(text, /deploy\/roll-out/);
    assert.match(
      renderChart({ ...values, observeOnly: false }).text,
      /deploy\/roll-out start NODE/,
    );
  });

  it("uses the ConfigMap of kubeadm's kube-proxy", () => {
    const { objects = [] } = renderChart({ ...leastWithConfigMap, observeOnly: true });
    const { volumes, containers } = podOf(objects);
    assert.equal(volumes[0]?.configMap?.name, "kube-proxy");
    assert.equal(containers[0]?.command.at(-1), "--kube-ipvs-observe-only");
  });
});

describe("the chart's clean-up", () => {
  const cleanUpOf = (values: Values): readonly Manifest[] =>
    (renderChart({ ...leastValues, ...values }).objects ?? []).filter(({ metadata }) =>
      metadata.name.endsWith("-clean-up"),
    );

  it("cleans nodes with the proxy's configuration and permissions", () => {
    const cleanUp = podOf(cleanUpOf({}));
    const proxy = podOf(renderChart(leastValues).objects ?? []);
    const [first] = cleanUp.initContainers;
    const command = proxy.containers[0]?.command.slice(0, -1) ?? [];
    assert.deepEqual(first?.command, [...command, "--cleanup"]);
    assert.deepEqual(first?.securityContext, proxy.containers[0]?.securityContext);
    const [idle] = podOf(readManifests("clean-up")).containers;
    assert.deepEqual(cleanUp.containers[0]?.command, idle?.command);
  });

  it("has the labels by which deploy/roll-out finds its pods, and no label of the proxy's pods", () => {
    const labels = (objects: readonly Manifest[]): unknown =>
      (objects[0] as unknown as WithSelector).spec.selector.matchLabels;
    assert.deepEqual(labels(cleanUpOf({})), { "k8s-app": "kube-ipvs-clean-up" });
    assert.deepEqual(labels(cleanUpOf({})), labels(readManifests("clean-up")));
    assert.doesNotMatch(JSON.stringify(cleanUpOf({})), /kubernetes\.io\/(?:name|instance)/);
    const [{ metadata } = { metadata: { name: "" } }] = cleanUpOf({
      fullnameOverride: "n".repeat(63),
    });
    assert.equal(metadata.name.length, 63);
  });

  it("selects only nodes to clean, even if the proxy's own node selector has the same label", () => {
    const nodeSelector = { "kube-ipvs.io/proxy": "kube-ipvs" };
    assert.deepEqual((podOf(cleanUpOf({ nodeSelector })) as unknown as Values)["nodeSelector"], {
      "kubernetes.io/os": "linux",
      "kube-ipvs.io/proxy": "clean-up",
    });
  });

  it("is not rendered for an observer, which leaves no kernel state", () => {
    assert.deepEqual(cleanUpOf({ observeOnly: true }), []);
  });
});
