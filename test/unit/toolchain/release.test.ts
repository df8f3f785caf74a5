/** Tests release artifacts with a small root. `make release-check` tests the real ones. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { gunzipSync } from "node:zlib";
import { parse } from "yaml";
import { imageBill, packagesOf } from "../../../toolchain/release/bill.ts";
import { packageChart } from "../../../toolchain/release/chart.ts";
import { type Image, imageOf } from "../../../toolchain/release/image.ts";
import { archiveOf, digestOf, layoutOf } from "../../../toolchain/release/layout.ts";
import { withImage } from "../../../toolchain/release/manifests.ts";
import { releaseNotes } from "../../../toolchain/release/notes.ts";
import { krewManifest, pluginArchive } from "../../../toolchain/release/plugin.ts";
import { schemaProblems } from "../../../toolchain/sbom-schema.ts";

const project = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(project, path), "utf8");
const { version } = JSON.parse(read("package.json")) as { readonly version: string };

function newFolder(test: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-release-"));
  test.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

const files: Readonly<Record<string, string>> = {
  "usr/bin/dash": "shell",
  "usr/local/bin/kube-proxy": "launcher",
  "usr/local/lib/kube-ipvs/kube-ipvs.cjs": "program",
  "usr/local/lib/kube-ipvs/node": "node",
  "var/lib/dpkg/status.d/dash":
    "Package: dash\nVersion: 1:0.5.12+x-2~deb12u1\nArchitecture: arm64\n",
};

/** An assembled root, whose files were created in this order at this time. */
function rootOf(test: TestContext, names: readonly string[], seconds: number): string {
  const root = newFolder(test);
  for (const name of names) {
    mkdirSync(join(root, name, ".."), { recursive: true });
    writeFileSync(join(root, name), files[name] ?? "", { mode: 0o644 });
    utimesSync(join(root, name), seconds, seconds);
  }
  return root;
}

const facts = {
  architecture: "arm64",
  version,
  revision: "",
  epochSeconds: 1_700_000_000,
  projectUrl: "https://example.com/kube-ipvs",
} as const;

function imageFrom(test: TestContext, names = Object.keys(files), seconds = 1): Image {
  return imageOf(rootOf(test, names, seconds), facts);
}

/** Names in the layers, without folders. */
function contentOf({ blobs }: Image): readonly (readonly string[])[] {
  return blobs.slice(1).map(({ bytes }) =>
    execFileSync("tar", ["-t"], { input: gunzipSync(bytes), encoding: "utf8" })
      .trim()
      .split("\n")
      .filter((name) => !name.endsWith("/")),
  );
}

describe("an image", () => {
  it("has the same digest if its files were created in another order and at another time", (test) => {
    const first = imageFrom(test);
    const second = imageFrom(test, Object.keys(files).toReversed(), 2);
    assert.deepEqual(second.manifest.descriptor, first.manifest.descriptor);
    const archives = [first, second].map((image) =>
      archiveOf(
        layoutOf(image.manifest, image.blobs, `kube-ipvs:${version}`),
        join(newFolder(test), "layout"),
        facts.epochSeconds,
      ),
    );
    assert.deepEqual(...(archives.map(digestOf) as [string, string]));
  });

  it("has another digest if a file differs", (test) => {
    const names = Object.keys(files);
    const { digest } = imageFrom(test).manifest.descriptor;
    assert.notEqual(imageFrom(test, names.slice(1)).manifest.descriptor.digest, digest);
  });

  it("has rarely changing files in its first layers, and each file once", (test) => {
    assert.deepEqual(contentOf(imageFrom(test)), [
      ["./usr/bin/dash", "./var/lib/dpkg/status.d/dash"],
      ["./usr/local/lib/kube-ipvs/node"],
      ["./usr/local/bin/kube-proxy", "./usr/local/lib/kube-ipvs/kube-ipvs.cjs"],
    ]);
  });

  it("names its layers by their digests, compressed and uncompressed, and has labels", (test) => {
    const { blobs } = imageFrom(test);
    const [config, ...layers] = blobs;
    const { rootfs, config: started } = JSON.parse(config?.bytes.toString() ?? "") as {
      readonly config: { readonly Labels: Readonly<Record<string, string>> };
      readonly rootfs: { readonly diff_ids: readonly string[] };
    };
    assert.deepEqual(
      rootfs.diff_ids,
      layers.map(({ bytes }) => digestOf(gunzipSync(bytes))),
    );
    const label = (name: string) => started.Labels[`org.opencontainers.image.${name}`];
    assert.equal(label("version"), version);
    assert.deepEqual(["url", "source", "documentation"].map(label), [
      facts.projectUrl,
      facts.projectUrl,
      `${facts.projectUrl}/blob/v${version}/docs/README.md`,
    ]);
    for (const { descriptor, bytes } of blobs) {
      assert.deepEqual([descriptor.digest, descriptor.size], [digestOf(bytes), bytes.length]);
    }
  });
});

const chartFacts = (ofVersion: string) => ({
  ...{ repository: "example/kube-ipvs", version: ofVersion, epochSeconds: 1 },
  projectUrl: facts.projectUrl,
  changelog: `# Changelog

## Unreleased

### Added

- Not yet.

## ${ofVersion} - 2026-01-01

### Breaking

- One that breaks ([docs](docs/x.md)).

### Fixed

- Two
  lines.

## 0.0.1 - 2025-01-01
`,
});

interface Job {
  readonly container?: { readonly image: string };
  readonly steps: readonly {
    readonly run?: string;
    readonly uses?: string;
    readonly id?: string;
    readonly with?: Readonly<Record<string, unknown>>;
  }[];
}

const isPush = ({ id }: Job["steps"][number]): boolean => id === "push";

/** All jobs of all workflows. */
function workflowJobs(): readonly Job[] {
  const folder = ".github/workflows";
  return readdirSync(join(project, folder)).flatMap((file) => {
    const { jobs } = parse(read(`${folder}/${file}`)) as {
      readonly jobs: Readonly<Record<string, Job>>;
    };
    return Object.values(jobs);
  });
}

describe("the workflows of a forge", () => {
  it("call targets of the Makefile", () => {
    const rules = read("Makefile").matchAll(/^([a-z][a-z0-9-]*):/gm);
    const targets = new Set([...rules].map(([, name]) => name));
    const commands = workflowJobs().flatMap(({ steps }) => steps.map(({ run }) => run ?? ""));
    const called = commands.flatMap((run) => /^make (\S+)/.exec(run)?.[1] ?? []);
    for (const required of ["test", "audit", "release-check"]) {
      assert.ok(called.includes(required), `no workflow calls make ${required}`);
    }
    for (const target of called) assert.ok(targets.has(target), target);
  });

  it("pin every action by commit and every image by digest", () => {
    const jobs = workflowJobs();
    const actions = jobs.flatMap(({ steps }) => steps.flatMap(({ uses }) => uses ?? []));
    assert.notEqual(actions.length, 0);
    for (const action of actions) assert.match(action, /^[\w-]+\/[\w./-]+@[0-9a-f]{40}$/);
    const images = jobs.flatMap(({ container }) => container?.image ?? []);
    assert.notEqual(images.length, 0);
    for (const image of images) assert.match(image, /@sha256:[0-9a-f]{64}$/);
  });

  it("sign what they push, and attest each architecture's bill and the provenance of everything", (test) => {
    const { steps = [] } = workflowJobs().find(({ steps }) => steps.some(isPush)) ?? {};
    const folder = newFolder(test);
    // The stand-in for a manifest is the name by which skopeo reads it.
    const program = 'echo "$(basename "$0")" "$@" >> calls; test "$2" != --raw || printf %s "$3"';
    for (const name of ["skopeo", "helm", "cosign"])
      writeFileSync(join(folder, name), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
    const sums = execFileSync("sha256sum", ["helm"], { cwd: folder });
    writeFileSync(join(folder, "SHA256SUMS"), sums);
    const env = {
      PATH: `${folder}:${process.env["PATH"]}`,
      IMAGE: "registry.example/owner/kube-ipvs",
      GITHUB_REF_NAME: "v1.2.3",
      GITHUB_OUTPUT: "output",
    };
    const script = steps.find(isPush)?.run ?? "";
    execFileSync("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", script], {
      cwd: folder,
      env,
    });
    const digest = (manifest: string): string => digestOf(Buffer.from(manifest));
    const chart = "registry.example/owner/charts/kube-ipvs";
    const [ofImage, ofChart] = [env.IMAGE, chart].map((name) => digest(`docker://${name}:1.2.3`));
    const calls = readFileSync(join(folder, "calls"), "utf8").split("\n");
    assert.deepEqual(
      calls.filter((call) => /^(?:helm|cosign|skopeo copy) /.test(call)),
      [
        `skopeo copy --all oci-archive:kube-ipvs-1.2.3.oci.tar:1.2.3 docker://${env.IMAGE}:1.2.3`,
        "helm push kube-ipvs-1.2.3.tgz oci://registry.example/owner/charts",
        `cosign sign --yes --recursive ${env.IMAGE}@${ofImage}`,
        `cosign sign --yes ${chart}@${ofChart}`,
        ...["amd64", "arm64"].map((architecture) => {
          const manifest = `oci-archive:kube-ipvs-1.2.3-${architecture}.oci.tar:1.2.3`;
          const bill = `--type cyclonedx --predicate sbom-${architecture}.cdx.json`;
          return `cosign attest --yes ${bill} ${env.IMAGE}@${digest(manifest)}`;
        }),
      ],
    );
    assert.equal(
      readFileSync(join(folder, "output"), "utf8"),
      `image-digest=${ofImage}\nchart=${chart}\nchart-digest=${ofChart}\n`,
    );
    const attested = steps.filter(({ uses }) =>
      uses?.startsWith("actions/attest-build-provenance"),
    );
    const output = (name: string): string => `\${{ steps.push.outputs.${name} }}`;
    assert.deepEqual(
      attested.map((step) => step.with?.["subject-checksums"] ?? step.with?.["subject-digest"]),
      [output("image-digest"), output("chart-digest"), "SHA256SUMS"],
    );
  });
});

describe("an artifact of the release", () => {
  it("is a bill of materials with Debian's packages, in CycloneDX format", (test) => {
    const component = { "bom-ref": "own", type: "application", name: "kube-ipvs", version };
    const program = {
      bomFormat: "CycloneDX",
      specVersion: "1.5",
      version: 1,
      metadata: { component },
      components: [],
      dependencies: [{ ref: "own" }],
    };
    const bill = imageBill(program, packagesOf(rootOf(test, Object.keys(files), 1)));
    assert.deepEqual(schemaProblems(bill), []);
    assert.deepEqual(
      bill.components.map(({ purl }) => purl),
      ["pkg:deb/debian/dash@1:0.5.12%2Bx-2~deb12u1?arch=arm64&distro=debian-12"],
    );
    assert.deepEqual(bill.dependencies[0]?.dependsOn, [bill.components[0]?.["bom-ref"]]);
  });

  it("is the chart with the files that it links to, and the repository", (test) => {
    const chart = join(project, "deploy/helm/kube-ipvs");
    const [first, second] = [1, 2].map(() =>
      packageChart(chart, join(newFolder(test), "kube-ipvs"), chartFacts(version)),
    );
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(digestOf(first), digestOf(second));
    const textOf = (name: string): string =>
      execFileSync("tar", ["-xzO", `kube-ipvs/${name}`], { input: first, encoding: "utf8" });
    assert.equal(textOf("files/dashboard.json"), read("deploy/monitoring/dashboard.json"));
    assert.match(textOf("values.yaml"), /^ {2}repository: example\/kube-ipvs$/m);
    const { annotations, ...about } = parse(textOf("Chart.yaml")) as {
      readonly annotations: Readonly<Record<string, string>>;
      readonly home: string;
      readonly sources: readonly string[];
      readonly icon: string;
    };
    const listed = (name: string) => parse(annotations[`artifacthub.io/${name}`] ?? "") as unknown;
    assert.deepEqual(listed("images"), [
      { name: "kube-ipvs", image: `example/kube-ipvs:${version}` },
    ]);
    assert.deepEqual(listed("changes"), [
      { kind: "changed", description: "One that breaks (docs)." },
      { kind: "fixed", description: "Two lines." },
    ]);
    assert.deepEqual(listed("links"), [
      { name: "Documentation", url: `${facts.projectUrl}/blob/v${version}/docs/README.md` },
      { name: "Changelog", url: `${facts.projectUrl}/blob/v${version}/CHANGELOG.md` },
    ]);
    assert.deepEqual([about.home, about.sources], [facts.projectUrl, [facts.projectUrl]]);
    const icon = about.icon.replace(`${facts.projectUrl}/raw/v${version}/`, "");
    assert.match(read(icon), /^<svg /);
  });

  it("cannot be a chart of another version", (test) => {
    const chart = join(project, "deploy/helm/kube-ipvs");
    assert.throws(
      () => packageChart(chart, join(newFolder(test), "kube-ipvs"), chartFacts("9.9.9")),
      /Chart\.yaml: version is not 9\.9\.9/,
    );
  });

  it("is a set of manifests with the image's name in each container", () => {
    const text = read("deploy/manifests/replace-kube-proxy.yaml");
    const named = withImage(text, "example/kube-ipvs:1");
    assert.deepEqual(named.match(/image: \S+/g), [
      "image: example/kube-ipvs:1",
      "image: example/kube-ipvs:1",
    ]);
    assert.throws(() => withImage("kind: ConfigMap", "r:1"), /does not name kube-ipvs.s image/);
    assert.match(
      read("deploy/kustomize/image/kustomization.yaml"),
      new RegExp(`newTag: ${version}\n`),
    );
  });

  it("is a set of notes with digests and versions", (test) => {
    const { descriptor } = imageFrom(test).manifest;
    const packages = [{ name: "dash", version: "0.5.12-2", architecture: "arm64" }];
    const notes = releaseNotes(read(`docs/releases/${version}.md`), {
      version,
      revision: "abc",
      nodeVersion: "24.0.0",
      repository: "example/kube-ipvs",
      indexDigest: "sha256:index",
      images: [{ architecture: "arm64", digest: descriptor.digest, size: 5e6, packages }],
    });
    assert.ok(notes.includes(`| arm64 | 5 MB | \`${descriptor.digest}\` |`));
    assert.match(notes, /Node\.js 24\.0\.0\. Debian packages: dash 0\.5\.12-2\./);
  });
});

describe("the kubectl plugin", () => {
  it("is archived with its license, and krew's manifest names the archive and the files in it", (test) => {
    const archive = pluginArchive(project, facts.epochSeconds);
    const projectUrl = "https://localhost/kube-ipvs";
    const { spec } = parse(krewManifest(archive, "plugin.tar.gz", { version, projectUrl })) as {
      readonly spec: {
        readonly version: string;
        readonly platforms: readonly {
          readonly uri: string;
          readonly sha256: string;
          readonly files: readonly { readonly from: string }[];
          readonly bin: string;
        }[];
      };
    };
    assert.equal(spec.version, `v${version}`);
    const [platform] = spec.platforms;
    assert.ok(platform !== undefined);
    const { uri, sha256, files: places, bin } = platform;
    assert.equal(uri, `${projectUrl}/releases/download/v${version}/plugin.tar.gz`);
    const folder = newFolder(test);
    writeFileSync(join(folder, "plugin.tar.gz"), archive);
    const run = (program: string, ...args: readonly string[]): string =>
      execFileSync(program, args, { cwd: folder, encoding: "utf8" });
    assert.match(run("sha256sum", "plugin.tar.gz"), new RegExp(`^${sha256} `));
    run("tar", "-xzf", "plugin.tar.gz");
    for (const { from } of places) assert.ok(statSync(join(folder, from)).isFile(), from);
    assert.match(run(join(folder, "deploy", bin), "--help"), /^Usage: kubectl kube-ipvs/);
  });
});
