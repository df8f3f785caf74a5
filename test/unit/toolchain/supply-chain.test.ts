/** Tests the installed packages, the packages in the program, and the documents about them. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { bundleProgram } from "../../../toolchain/bundle-program.ts";
import { type Bom, completeBom } from "../../../toolchain/sbom.ts";
import { schemaProblems } from "../../../toolchain/sbom-schema.ts";
import { readThirdParty, thirdPartyText } from "../../../toolchain/third-party.ts";

const project = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(project, path), "utf8");

interface LockedPackage {
  readonly version: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly hasInstallScript?: boolean;
}

const lock = JSON.parse(read("package-lock.json")) as {
  readonly packages: Readonly<Record<string, LockedPackage>>;
};
const packages = Object.entries(lock.packages).filter(([path]) => path !== "");

describe("the installation of dependencies", () => {
  it("runs no install script, which .npmrc and npm's arguments disable", () => {
    assert.match(read(".npmrc"), /^ignore-scripts=true$/m);
    assert.match(read("toolchain/npm-ci.sh"), /^exec npm ci --ignore-scripts "\$@"$/m);
    const scripts = ["install-dependencies.sh", "install-node.sh", "release/program.sh"];
    for (const script of [...scripts.map((name) => `toolchain/${name}`), "test/shim/run.sh"]) {
      const text = read(script);
      assert.match(text, /npm-ci\.sh"/, script);
      assert.doesNotMatch(text, /\bnpm (ci|install|i)\b/, script);
    }
    const withScript = packages.filter(([, { hasInstallScript }]) => hasInstallScript === true);
    // Review each new install script: does the package work without it?
    assert.deepEqual(
      withScript.map(([path]) => path),
      ["node_modules/esbuild", "node_modules/netlink"],
    );
  });

  it("uses exact versions with checksums, and no registry address", () => {
    const { dependencies, devDependencies } = JSON.parse(read("package.json")) as Readonly<
      Record<"dependencies" | "devDependencies", Readonly<Record<string, string>>>
    >;
    for (const version of Object.values({ ...dependencies, ...devDependencies })) {
      assert.match(version, /^\d+\.\d+\.\d+$/);
    }
    for (const [path, { integrity, resolved }] of packages) {
      assert.match(integrity ?? "", /^sha512-/, path);
      assert.equal(resolved, undefined, path);
    }
  });
});

/** Copies these files, without node_modules, into a folder that is removed after the test. */
function copyOf(test: TestContext, ...names: readonly string[]): string {
  mkdirSync(join(project, "build"), { recursive: true });
  const folder = mkdtempSync(join(project, "build/copy-"));
  test.after(() => rmSync(folder, { recursive: true }));
  for (const name of names) {
    const isWanted = (path: string): boolean => basename(path) !== "node_modules";
    cpSync(join(project, name), join(folder, name), { recursive: true, filter: isWanted });
  }
  return folder;
}

/** SPDX identifiers. Other licenses must be reviewed first. */
const acceptedLicenses = new Set(["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"]);

const bundle = await bundleProgram(project);
const parties = bundle.packageFolders.map((folder) => readThirdParty(join(project, folder)));

describe("the licenses of the bundle", () => {
  it("are listed, each package with its version, license and license text", () => {
    const text = thirdPartyText(parties);
    assert.ok(parties.length > 20, `${parties.length} packages`);
    for (const { name, version, license, text: words } of parties) {
      assert.match(
        text,
        new RegExp(`^${name} +${version.replaceAll(".", "\\.")} +${license}$`, "m"),
      );
      assert.ok(text.includes(words), name);
    }
    assert.ok(text.includes("commander") && text.includes("@kubernetes/client-node"));
  });

  it("allow distribution", () => {
    for (const { name, license } of parties) assert.ok(acceptedLicenses.has(license), name);
  });

  it("make the build fail if a package has none", (test) => {
    const folder = copyOf(test);
    cpSync(join(project, "package.json"), join(folder, "package.json"));
    assert.equal(readThirdParty(folder).license, "Apache-2.0");
    const stated = JSON.parse(read("package.json")) as Record<string, unknown>;
    delete stated["license"];
    writeFileSync(join(folder, "package.json"), JSON.stringify(stated));
    assert.throws(() => readThirdParty(folder), /^Error: kube-ipvs .* states no license$/);
  });
});

/** The minimum content of npm's document. */
const fromNpm: Bom = {
  $schema: "http://cyclonedx.org/schema/bom-1.5.schema.json",
  bomFormat: "CycloneDX",
  specVersion: "1.5",
  serialNumber: "urn:uuid:742a5a80-017a-4b1d-9a17-2abe8e03abd2",
  version: 1,
  metadata: {
    timestamp: "2026-01-01T00:00:00.000Z",
    component: {
      "bom-ref": "kube-ipvs@0.1.0",
      type: "application",
      name: "the name of the folder",
      version: "0.1.0",
    },
  },
  components: [
    { "bom-ref": "execa@1.0.0", type: "library", name: "execa", version: "1.0.0" },
    { "bom-ref": "undici@2.0.0", type: "library", name: "undici", version: "2.0.0" },
  ],
  dependencies: [{ ref: "kube-ipvs@0.1.0", dependsOn: ["execa@1.0.0", "undici@2.0.0"] }],
};
const shipped = { bundled: new Set(["execa@1.0.0"]), nodeVersion: "24.0.0" };

describe("the bill of materials", () => {
  it("conforms to the CycloneDX 1.5 schema", () => {
    assert.deepEqual(schemaProblems(completeBom(fromNpm, shipped)), []);
    const wrong = { ...fromNpm, components: [{ name: "execa" }] };
    assert.deepEqual(schemaProblems(wrong), ["/components/0 must have required property 'type'"]);
  });

  it("lists the contents of the program, and dependencies that are not part of it", () => {
    const { components, metadata, dependencies } = completeBom(fromNpm, shipped);
    assert.equal(metadata.component.name, "kube-ipvs");
    assert.deepEqual(
      components.map(({ name, version, scope }) => [name, version, scope]),
      [
        ["execa", "1.0.0", "required"],
        ["undici", "2.0.0", "excluded"],
        ["node", "24.0.0", "required"],
      ],
    );
    assert.deepEqual(dependencies[0]?.dependsOn, ["execa@1.0.0", "undici@2.0.0", "node@24.0.0"]);
  });

  it("is the same each time it is written", () => {
    const later = {
      ...fromNpm,
      serialNumber: "urn:uuid:00000000-0000-4000-8000-000000000000",
      metadata: { ...fromNpm.metadata, timestamp: "2027-01-01T00:00:00.000Z" },
    };
    assert.deepEqual(completeBom(later, shipped), completeBom(fromNpm, shipped));
  });
});

describe("the bundle", () => {
  /** Bundles in a separate process with a different working folder. */
  function bundleIn(folder: string): string {
    const script = `
      const { bundleProgram } = await import(${JSON.stringify(join(folder, "toolchain/bundle-program.ts"))});
      const { createHash } = await import("node:crypto");
      const { files } = await bundleProgram(${JSON.stringify(folder)});
      const hash = createHash("sha256");
      for (const [name, text] of [...files].toSorted()) hash.update(name + "\\0" + text);
      console.log(hash.digest("hex"));`;
    return execFileSync(process.execPath, ["--input-type=module", "-e", script], {
      cwd: tmpdir(),
      encoding: "utf8",
    });
  }

  it("is identical in another folder", (test) => {
    const sources = ["src", "native-shim", "toolchain", "package.json", "tsconfig.json"];
    const folder = copyOf(test, ...sources);
    // Uses hard links, because the bundler would resolve a symbolic link to this folder.
    execFileSync("cp", ["-al", join(project, "node_modules"), folder]);
    assert.equal(bundleIn(folder), bundleIn(project));
    const path = join(folder, "src/main.ts");
    writeFileSync(path, `${readFileSync(path, "utf8")}console.log("changed");\n`);
    assert.notEqual(bundleIn(folder), bundleIn(project));
  });

  it("has an identical native-shim in another folder", (test) => {
    const folder = copyOf(test, "native-shim");
    const headers = join(project, "node_modules/node-api-headers/include");
    execFileSync("make", ["-C", join(folder, "native-shim"), `NODE_API_INCLUDE=${headers}`]);
    const addon = join("build/native-shim", process.arch, "netlink_socket.node");
    assert.ok(readFileSync(join(folder, addon)).equals(readFileSync(join(project, addon))));
  });
});
