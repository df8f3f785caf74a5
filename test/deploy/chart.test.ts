/** What the chart takes, what it refuses, and what it makes of it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Ajv } from "ajv";
import { configOf, podOf } from "../support/container/pod.ts";
import { leastValues, readChartFile, renderChart, type Values } from "./chart.ts";

const defaults = readChartFile("values.yaml") as Values;
const schema = readChartFile("values.schema.json") as { readonly properties: object };
const validate = new Ajv({ allErrors: true, strictTypes: false }).compile(schema);

/** Paths of what is wrong. */
function problems(values: Values): readonly string[] {
  validate({ ...defaults, ...values });
  return (validate.errors ?? []).map(({ instancePath }) => instancePath);
}

describe("the schema of the values", () => {
  it("knows each value of values.yaml, and no other but Helm's own", () => {
    const known = Object.keys(schema.properties).filter((name) => name !== "global");
    assert.deepEqual(known.toSorted(), Object.keys(defaults).toSorted());
  });

  it("takes the defaults with an API server, or with a ConfigMap", () => {
    assert.deepEqual(problems(leastValues), []);
    assert.deepEqual(problems({ existingConfigMap: "kube-proxy" }), []);
  });

  const refused: readonly { readonly values: Values; readonly want: string }[] = [
    { values: { apiServer: "" }, want: "/apiServer" },
    { values: { apiServer: "10.0.0.1:6443" }, want: "/apiServer" },
    { values: { capabilities: ["NET_RAW"] }, want: "/capabilities" },
    { values: { capabilities: ["NET_ADMIN"] }, want: "/capabilities" },
    { values: { capabilities: ["NET_ADMIN", "SYS_ADMIN"] }, want: "/capabilities/1" },
    { values: { seccompProfile: { type: "Unconfined" } }, want: "/seccompProfile/type" },
    { values: { seccompProfile: { type: "Localhost" } }, want: "/seccompProfile" },
    { values: { config: { mode: "iptables" } }, want: "/config/mode" },
    { values: { config: { metricsBindAddress: "0.0.0.0" } }, want: "/config/metricsBindAddress" },
    { values: { image: { repository: "r", digest: "sha256:12" } }, want: "/image/digest" },
    { values: { nodeselector: {} }, want: "" },
    { values: { verbosity: "4" }, want: "/verbosity" },
  ];
  for (const { values, want } of refused) {
    it(`refuses ${JSON.stringify(values)}`, () => {
      assert.ok(problems({ ...leastValues, ...values }).includes(want));
    });
  }
});

describe("the chart, rendered", () => {
  it("needs an API server, and says so", () => {
    assert.match(renderChart({}).error, /apiServer is needed/);
  });

  it("lays the given configuration over its own", () => {
    const config = { ipvs: { scheduler: "lc" }, metricsBindAddress: "0.0.0.0:20249" };
    const { objects = [], text } = renderChart({ ...leastValues, config });
    const file = configOf(objects)["config.conf"] ?? "";
    assert.match(file, /^mode: ipvs$/m);
    assert.match(file, /^clusterCIDR: 10\.244\.0\.0\/16$/m);
    assert.match(file, /^ipvs:\n {2}scheduler: lc$/m);
    assert.equal(podOf(objects).containers[0]?.ports?.[0]?.containerPort, 20_249);
    assert.doesNotMatch(text, /open to the node itself only/);
  });

  it("rolls out when the configuration changes", () => {
    const sum = (values: Values): string | undefined =>
      /checksum\/config: (\S+)/.exec(renderChart({ ...leastValues, ...values }).text)?.[1];
    assert.equal(sum({}), sum({}));
    assert.notEqual(sum({}), sum({ config: { ipvs: { strictARP: true } } }));
  });

  it("uses an existing ConfigMap and account in the place of its own", () => {
    const { objects = [] } = renderChart({
      existingConfigMap: "kube-proxy",
      serviceAccount: { create: false, name: "kube-proxy" },
      appLabel: "kube-proxy",
    });
    assert.deepEqual(
      objects.map(({ kind }) => kind),
      ["DaemonSet"],
    );
    assert.equal(podOf(objects).volumes[0]?.configMap?.name, "kube-proxy");
  });

  it("leaves out the init container, and grants what is listed", () => {
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
    assert.equal(containers[0]?.command.at(-1), "-v=3");
  });

  it("takes a seccomp profile of the node", () => {
    const seccompProfile = { type: "Localhost", localhostProfile: "kube-ipvs.json" };
    assert.deepEqual(problems({ ...leastValues, seccompProfile }), []);
    const { objects = [] } = renderChart({ ...leastValues, seccompProfile });
    assert.deepEqual(podOf(objects).containers[0]?.securityContext?.seccompProfile, seccompProfile);
  });

  it("names an image by its digest where there is one", () => {
    const digest = `sha256:${"0".repeat(64)}`;
    const { text } = renderChart({ ...leastValues, image: { repository: "r", digest } });
    assert.match(text, new RegExp(`image: r@${digest}`));
  });
});
