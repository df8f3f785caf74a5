/** An image's bill of materials: the program's, and the Debian packages in its root. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Bom } from "../sbom.ts";

/** A package in status.d. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** May also be `all`. */
  readonly architecture: string;
}

/** The packages of an assembled root, by name. */
export function packagesOf(root: string): readonly DebianPackage[] {
  const folder = join(root, "var/lib/dpkg/status.d");
  return readdirSync(folder)
    .toSorted()
    .map((name) => packageIn(readFileSync(join(folder, name), "utf8"), name));
}

function packageIn(text: string, file: string): DebianPackage {
  const field = (name: string): string => {
    const value = new RegExp(`^${name}: (.+)$`, "m").exec(text)?.[1];
    if (value === undefined) throw new Error(`${file} of status.d has no field ${name}`);
    return value;
  };
  return {
    name: field("Package"),
    version: field("Version"),
    architecture: field("Architecture"),
  };
}

/** Adds Debian's packages to the program's document. Their purls (package URLs) have the type deb. */
export function imageBill(program: Bom, packages: readonly DebianPackage[]): Bom {
  const components = packages.map(({ name, version, architecture }) => {
    const encoded = encodeURIComponent(version).replaceAll("%3A", ":");
    return {
      "bom-ref": `deb/${name}@${version}`,
      type: "library",
      name,
      version,
      scope: "required",
      purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encoded}?arch=${architecture}&distro=debian-12`,
    };
  });
  const own = program.metadata.component["bom-ref"];
  const references = components.map((component) => component["bom-ref"]);
  return {
    ...program,
    components: [...program.components, ...components],
    dependencies: [
      ...program.dependencies.map((dependency) =>
        dependency.ref === own
          ? { ...dependency, dependsOn: [...(dependency.dependsOn ?? []), ...references] }
          : dependency,
      ),
      ...references.map((ref) => ({ ref, dependsOn: [] })),
    ],
  };
}
