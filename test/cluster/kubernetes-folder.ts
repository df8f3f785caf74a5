/** Finds Kubernetes' prebuilt programs and images in the operator's folder, and reports missing ones. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Programs by the release archive that contains them. */
const archives = {
  "kubernetes-server-linux-amd64.tar.gz": [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
    "kube-proxy",
  ],
  "kubernetes-test-linux-amd64.tar.gz": ["e2e.test"],
} as const;

export type ProgramName = (typeof archives)[keyof typeof archives][number];

/** Possible locations of a program: the folder itself, or the folders to which the release archives unpack. */
const places = ["", "server/bin", "test/bin", "kubernetes/server/bin", "kubernetes/test/bin"];

/** Images that pods of every spec require, without host and tag. */
const neededRepositories = ["pause", "e2e-test-images/agnhost", "e2e-test-images/busybox"];

export interface KubernetesFolder {
  program(name: ProgramName): string;
  /** Archives of images, the needed ones first. */
  readonly images: readonly string[];
  /** The name of the pause image, which containerd's configuration must contain. */
  readonly pauseImage: string;
  /** `v1.36.2`. */
  readonly version: string;
}

/** Returns the image names in the output of `e2e.test --list-images`, without its log lines. */
export function imageNames(output: string): readonly string[] {
  return output.split("\n").filter((line) => /^[\w.-]+(\/[\w.-]+)+:[\w.-]+$/.test(line));
}

/** Returns the newest version of each image, because only upgrade specs use older ones. */
export function neededImages(names: readonly string[]): readonly string[] {
  const inOrder = names.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return neededRepositories.flatMap((repository) => {
    return inOrder.findLast((name) => name.replace(/^[^/]+\/|:.*/g, "") === repository) ?? [];
  });
}

/** Returns the command that saves an image in the folder that this program searches. */
export function savingCommand(name: string, folder: string): string {
  const file = `${name.slice(name.lastIndexOf("/") + 1).replace(":", "-")}.tar`;
  return `skopeo copy docker://${name} docker-archive:${join(folder, "images", file)}:${name}`;
}

/** Throws a single error that names everything missing. */
export function openKubernetesFolder(folder: string): KubernetesFolder {
  const programs = new Map<string, string>();
  const missing: string[] = [];
  for (const [archive, names] of Object.entries(archives)) {
    for (const name of names) {
      const path = places.map((place) => join(folder, place, name)).find((one) => existsSync(one));
      if (path === undefined)
        missing.push(`${name}: unpack ${archive} of a Kubernetes release into ${folder}`);
      else programs.set(name, path);
    }
  }
  const program = (name: ProgramName): string => programs.get(name) ?? "";
  const available = imagesIn(join(folder, "images"));
  const needed = programs.has("e2e.test") ? neededImages(listImages(program("e2e.test"))) : [];
  for (const name of needed) {
    if (!available.has(name)) missing.push(`image ${name}: ${savingCommand(name, folder)}`);
  }
  if (missing.length > 0) throw new Error(["missing:", ...missing].join("\n  "));
  const inOrder = [...needed, ...available.keys()].map((name) => available.get(name) ?? "");
  return {
    program,
    images: [...new Set(inOrder)],
    pauseImage: needed.find((name) => name.includes("/pause:")) ?? "",
    version: versionOf(program("kubelet")),
  };
}

function listImages(e2eTest: string): readonly string[] {
  return imageNames(execFileSync(e2eTest, ["--list-images"], { encoding: "utf8", stdio: "pipe" }));
}

/** Returns Docker archives by the names of their images. */
function imagesIn(folder: string): ReadonlyMap<string, string> {
  const files = existsSync(folder)
    ? readdirSync(folder).filter((name) => name.endsWith(".tar"))
    : [];
  return new Map(
    files.flatMap((file) => {
      const path = join(folder, file);
      const manifest = execFileSync("tar", ["-xOf", path, "manifest.json"], { encoding: "utf8" });
      const images = JSON.parse(manifest) as readonly { readonly RepoTags: readonly string[] }[];
      return images.flatMap(({ RepoTags }) => RepoTags.map((name) => [name, path] as const));
    }),
  );
}

function versionOf(kubelet: string): string {
  return execFileSync(kubelet, ["--version"], { encoding: "utf8" }).trim().split(" ").at(-1) ?? "";
}
