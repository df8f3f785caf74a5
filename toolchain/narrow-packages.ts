/**
 * Reduces packages to the part that the program uses, and delays loading code that few clusters need. Loaded code takes
 * time at each start and remains in memory. Sources and unit tests use the complete packages, so types and behavior are
 * checked against those.
 */
import { dirname, join } from "node:path";
import type { OnLoadResult, Plugin } from "esbuild";

const packages: string = join(import.meta.dirname, "../node_modules");

/** The index also loads push gateway, cluster mode, default metrics and OpenTelemetry. */
const prometheusClient = `
  export { default as Counter } from "prom-client/lib/counter.js";
  export { default as Gauge } from "prom-client/lib/gauge.js";
  export { default as Histogram } from "prom-client/lib/histogram.js";
  export { default as Registry } from "prom-client/lib/registry.js";
`;

/**
 * The program only uses KubeConfig, and only its code that creates options for node:https. The library never sends
 * requests.
 */
const clientLibrary = 'export { KubeConfig } from "@kubernetes/client-node/dist/config.js";';

/** The acceptance test also uses typed clients, over the project's own connection, and pods/exec. */
const clientLibraryOfE2e = `
  ${clientLibrary}
  export { Exec } from "@kubernetes/client-node/dist/exec.js";
  export { setHeaderOptions } from "@kubernetes/client-node/dist/middleware.js";
  export { PatchStrategy } from "@kubernetes/client-node/dist/patch.js";
  export * from "@kubernetes/client-node/dist/gen/index.js";
`;

/** src/api/cluster/kubeconfig-file.ts reads kubeconfigs, and passes JSON to the library. */
const jsonForYaml = "export const load = JSON.parse;";

const replacements: readonly {
  readonly path: RegExp;
  /** The modules that import the package. If absent, all modules of the program. */
  readonly importer?: RegExp;
  readonly contents: string;
}[] = [
  { path: /^prom-client$/, contents: prometheusClient },
  {
    path: /^@kubernetes\/client-node$/,
    importer: /\/src\/e2e\//,
    contents: clientLibraryOfE2e,
  },
  { path: /^@kubernetes\/client-node$/, contents: clientLibrary },
  // Another HTTP client, and 1.4 MB of API types and calls, which only applySecurityAuthentication and makeApiClient
  // need.
  { path: /^undici$/, contents: leftOut("undici", ["Agent", "ProxyAgent", "fetch"]) },
  {
    path: /^\.\/gen\/index\.js$/,
    importer: /client-node\/dist\/config\.js$/,
    contents: leftOut("the generated API", ["createConfiguration", "ServerConfiguration"]),
  },
  { path: /^js-yaml$/, importer: /client-node\/dist\/config\.js$/, contents: jsonForYaml },
  // Used for SOCKS proxies between the node and the API server.
  { path: /^socks-proxy-agent$/, contents: laterClasses("socks-proxy-agent", ["SocksProxyAgent"]) },
  {
    path: /^socks$/,
    importer: /client-node\//,
    contents: `export const SocksClient = ${laterMethods('require("socks").SocksClient', ["createConnection"])};`,
  },
];

/** Functions that throw an error if an updated package calls code that the bundle lacks. */
function leftOut(what: string, names: readonly string[]): string {
  const lines = names.map((name) => {
    const message = `${name} is not in this program: ${what} is left out by toolchain/narrow-packages.ts`;
    return `export function ${name}() { throw new Error(${JSON.stringify(message)}); }`;
  });
  return lines.join("\n");
}

/** Classes of a package that is loaded when the first object is created. */
function laterClasses(name: string, classes: readonly string[]): string {
  const lines = classes.map(
    (one) =>
      `export function ${one}(...given) { return new (require(${JSON.stringify(name)}).${one})(...given); }`,
  );
  return lines.join("\n");
}

/** An object with these functions. The first call loads their module with `expression`. */
function laterMethods(expression: string, names: readonly string[]): string {
  const members = names.map((name) => `${name}: (...given) => ${expression}.${name}(...given)`);
  return `{ ${members.join(", ")} }`;
}

export const narrowPackages: Plugin = {
  name: "narrow-packages",
  setup(build) {
    for (const [index, { path, importer }] of replacements.entries()) {
      build.onResolve({ filter: path }, (found) => {
        const isMeant = found.namespace === "file" && (importer?.test(found.importer) ?? true);
        return isMeant ? { path: String(index), namespace: "narrow" } : undefined;
      });
    }
    build.onResolve({ filter: /^(prom-client|@kubernetes\/client-node)\// }, ({ path }) => ({
      // The `exports` maps of these packages do not list internal files.
      path: join(packages, path),
    }));
    build.onLoad({ filter: /.*/, namespace: "narrow" }, ({ path }): OnLoadResult => {
      const { contents } = replacements[Number(path)] ?? { contents: "" };
      return { contents, loader: "js", resolveDir: dirname(packages) };
    });
  },
};
