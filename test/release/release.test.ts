/**
 * Tests that two runs of `make release` write identical bytes, and that the usual tools can install and run the result.
 */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { parse } from "yaml";

const project = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as {
  readonly version: string;
};
const release = join(project, `build/release/kube-ipvs-${version}`);
const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-release-"));
after(() => rmSync(folder, { recursive: true }));

function run(program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, { encoding: "utf8", cwd: release, stdio: "pipe" });
}
const sums = (path: string): string => readFileSync(join(path, "SHA256SUMS"), "utf8");
const archiveOf = (architecture: string): string =>
  `oci-archive:kube-ipvs-${version}-${architecture}.oci.tar:${version}`;

describe("the release", () => {
  it("has the same digests when it is rebuilt from newly assembled roots", () => {
    assert.equal(sums(`${release}-again`), sums(release));
    assert.match(sums(release), /amd64\.oci\.tar$/m);
  });

  it("has files that match their checksums", () => {
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS");
  });

  it("has one archive for all architectures, with the images of the other archives", () => {
    const index = JSON.parse(
      run("skopeo", "inspect", "--raw", `oci-archive:kube-ipvs-${version}.oci.tar:${version}`),
    ) as {
      readonly manifests: readonly {
        readonly digest: string;
        readonly platform: { readonly architecture: string };
      }[];
    };
    for (const { digest, platform } of index.manifests) {
      const { Digest, Architecture } = JSON.parse(
        run("skopeo", "inspect", archiveOf(platform.architecture)),
      ) as { readonly Digest: string; readonly Architecture: string };
      assert.deepEqual([Digest, Architecture], [digest, platform.architecture]);
    }
    assert.notEqual(index.manifests.length, 0);
  });

  it("has manifests that name its image once", () => {
    run("tar", "-xzf", `kube-ipvs-${version}-manifests.tar.gz`, "-C", folder);
    const { images } = parse(
      readFileSync(join(folder, "kustomize/image/kustomization.yaml"), "utf8"),
    ) as { readonly images: readonly { readonly newName: string; readonly newTag: string }[] };
    const name = `${images[0]?.newName}:${images[0]?.newTag}`;
    const rendered = readFileSync(join(folder, "manifests/kubeadm.yaml"), "utf8");
    assert.deepEqual(new Set(rendered.match(/image: \S+/g)), new Set([`image: ${name}`]));
  });
});

/** Path of the dynamic loader in an image, by architecture. */
const emulators: Readonly<Record<string, string>> = {
  arm64: "qemu-aarch64-static",
  amd64: "qemu-x86_64-static",
};

/**
 * A user-mode emulator does not support the netlink families that the daemon needs. The test therefore covers the
 * configuration, manifests and addon, but no kernel communication.
 */
function triesEmulated(emulator: string, command: readonly string[]): void {
  const flags = ["--manifests", folder, "--cluster-cidr=10.244.0.0/16,fd00:244::/32"];
  const written = [process.arch, "emulated"].map((name) => join(folder, `written-${name}`));
  const [own = "", other = ""] = written;
  run(join(project, "dist/kube-ipvs"), `--write-config-to=${own}`, ...flags);
  run(emulator, ...command, `--write-config-to=${other}`, ...flags);
  assert.equal(readFileSync(other, "utf8"), readFileSync(own, "utf8"));
  const { status, stderr } = spawnSync(emulator, [...command, "plan", ...flags], {
    encoding: "utf8",
  });
  assert.equal(status, 1);
  assert.match(stderr, /Cannot open netlink socket of protocol \d+: EPROTONOSUPPORT/);
}

describe("each image", () => {
  for (const architecture of ["amd64", "arm64"]) {
    const archive = join(release, `kube-ipvs-${version}-${architecture}.oci.tar`);
    if (!existsSync(archive) && process.arch === "arm64") continue;

    it(`is unpacked by umoci, and its program runs: ${architecture}`, () => {
      const layout = join(folder, `layout-${architecture}`);
      run("skopeo", "copy", "--quiet", archiveOf(architecture), `oci:${layout}:${version}`);
      const bundle = join(folder, `bundle-${architecture}`);
      run("umoci", "unpack", "--image", `${layout}:${version}`, bundle);
      const root = join(bundle, "rootfs");
      const emulated = [
        ...["-L", root, join(root, "usr/local/lib/kube-ipvs/node")],
        join(root, "usr/local/lib/kube-ipvs/kube-ipvs.cjs"),
      ];
      const { process: started } = JSON.parse(
        readFileSync(join(bundle, "config.json"), "utf8"),
      ) as { readonly process: { readonly args: readonly string[] } };
      assert.deepEqual(started.args, ["/usr/local/bin/kube-proxy"]);
      const own = process.arch === "arm64" ? "arm64" : "amd64";
      const printed =
        architecture === own
          ? run("chroot", root, ...started.args, "--version")
          : run(emulators[architecture] ?? "", ...emulated, "--version");
      assert.match(printed, new RegExp(`kube-ipvs v${version}`));
      if (architecture !== own) triesEmulated(emulators[architecture] ?? "", emulated);
    });
  }
});
