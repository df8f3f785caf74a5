/**
 * Tests the Helm values in the guides and the README: each helm command renders the chart with the image that it names.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { argumentsOf, commandsOf } from "../support/documents/guide-commands.ts";
import { readGuides } from "../support/documents/guides.ts";
import { renderChart, type Values } from "./chart.ts";

const pages = [
  {
    path: "../README.md",
    text: readFileSync(join(import.meta.dirname, "../../README.md"), "utf8"),
  },
  ...readGuides(),
];

/** Values for the placeholders in the guides. */
const filledIn: Readonly<Record<string, string>> = {
  REPOSITORY: "registry.example/network",
  HOST: "10.0.0.1",
  ADDRESS: "10.0.0.1",
  CIDR: "10.244.0.0/16",
};

/** The values of the installed release, for `--reuse-values` and similar flags. */
const installed: Readonly<Record<string, string>> = {
  "image.repository": "registry.example/network/kube-ipvs",
  existingConfigMap: "kube-proxy",
};

/** Parses `--set config.clusterCIDR=CIDR` as Helm does: text that looks like a number or boolean becomes one. */
function valuesIn(args: readonly string[]): Values {
  const values: Record<string, unknown> = {};
  if (args.some((argument) => argument.endsWith("reuse-values"))) {
    for (const [path, value] of Object.entries(installed)) put(values, path.split("."), value);
  }
  for (const [index, argument] of args.entries()) {
    if (args[index - 1] === "-f") Object.assign(values, parse(readFileSync(argument, "utf8")));
    if (args[index - 1] !== "--set") continue;
    const [path = "", text = ""] = argument.split("=");
    const value = text.replaceAll(/\b[A-Z]+\b/g, (name) => filledIn[name] ?? name);
    put(values, path.split("."), /^(?:\d+|true|false)$/.test(value) ? JSON.parse(value) : value);
  }
  return values;
}

function put(values: Record<string, unknown>, [key = "", ...rest]: string[], value: unknown): void {
  if (rest.length === 0) values[key] = value;
  else {
    const inner = (values[key] ?? {}) as Record<string, unknown>;
    values[key] = inner;
    put(inner, rest, value);
  }
}

describe("helm install and helm upgrade in a guide", () => {
  for (const { path, text } of pages) {
    const calls = commandsOf(text)
      .flatMap((command) => argumentsOf("helm", command))
      .filter(([verb = "", , chart]) => {
        return ["install", "upgrade"].includes(verb) && chart === "deploy/helm/kube-ipvs";
      });
    for (const args of calls.filter((all) => !all.some((argument) => argument.includes("…")))) {
      it(`renders the chart: docs/${path}`, () => {
        const values = valuesIn(args);
        const { objects, text: manifests, error } = renderChart(values);
        assert.ok(objects !== undefined, error);
        const { repository } = values["image"] as { readonly repository: string };
        assert.ok(manifests.includes(`${repository}:`), "no container has the image");
      });
    }
  }
});

describe("kubectl kustomize in a guide", () => {
  const project = join(import.meta.dirname, "../..");
  const [command = ""] = readGuides()
    .filter(({ path }) => path === "kind.md")
    .flatMap(({ text }) => commandsOf(text))
    .filter((text) => text.startsWith("kubectl kustomize"));
  const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;
  const skip = hasKubectl ? false : "no kubectl here";

  it("uses the image name that the guide loads: docs/kind.md", { skip }, () => {
    const [rendering = ""] = command.split("| kubectl apply");
    const { stdout } = spawnSync("sh", ["-c", rendering], { cwd: project, encoding: "utf8" });
    const images = [...stdout.matchAll(/^ +image: (.*)$/gm)].map(([, image = ""]) => image);
    assert.equal(images.length, 2);
    for (const image of images) assert.match(image, /^localhost\/kube-ipvs:\d/);
  });
});
