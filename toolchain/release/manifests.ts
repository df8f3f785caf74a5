/** The released parts of deploy/: manifests, kustomize and monitoring, with the name of the released image. */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The image name in the repository's manifests. */
const placeholder = /^(\s*(?:- )?image: )kube-ipvs:\S+$/gm;

/** Replaces the repository's image name with `image`. Throws if the text does not contain that name. */
export function withImage(text: string, image: string): string {
  if (text.search(placeholder) < 0) throw new Error("A manifest does not name kube-ipvs's image");
  return text.replaceAll(placeholder, `$1${image}`);
}

/** Copies the files that are applied to clusters. `repository` has no tag. */
export function placeManifests(
  project: string,
  target: string,
  { repository, version }: { readonly repository: string; readonly version: string },
): void {
  rmSync(target, { recursive: true, force: true });
  for (const name of ["kustomize", "manifests", "monitoring", "seccomp"]) {
    cpSync(join(project, "deploy", name), join(target, name), { recursive: true });
  }
  rmSync(join(target, "monitoring/alerts.test.yaml"));
  const manifests = join(target, "manifests");
  for (const name of readdirSync(manifests)) {
    const path = join(manifests, name);
    writeFileSync(path, withImage(readFileSync(path, "utf8"), `${repository}:${version}`));
  }
  const component = join(target, "kustomize/image/kustomization.yaml");
  const text = readFileSync(component, "utf8")
    .replace(/newName: .*/, `newName: ${repository}`)
    .replace(/newTag: .*/, `newTag: ${version}`);
  writeFileSync(component, text);
}
