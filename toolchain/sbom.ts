/** The bill of materials (CycloneDX 1.5) from npm's dependency list and the bundle's contents. */

interface Component {
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
  readonly [field: string]: unknown;
}

export interface Bom {
  readonly specVersion: string;
  readonly serialNumber?: string;
  readonly metadata: { readonly component: Component; readonly [field: string]: unknown };
  readonly components: readonly Component[];
  readonly dependencies: readonly {
    readonly ref: string;
    readonly dependsOn?: readonly string[];
  }[];
  readonly [field: string]: unknown;
}

export interface Shipped {
  /** Packages with code in the bundle, such as `commander@15.1.0`. */
  readonly bundled: ReadonlySet<string>;
  /** Version without a v: 24.1.0. */
  readonly nodeVersion: string;
}

/**
 * npm's document with the program's own name, Node.js as a component, and scope `excluded` for packages without code in
 * the bundle. Omits the serial number and time, which differ in every run.
 */
export function completeBom(bom: Bom, { bundled, nodeVersion }: Shipped): Bom {
  const { serialNumber: _, ...document } = bom;
  const { timestamp: __, ...metadata } = bom.metadata;
  const own = { ...metadata.component, name: "kube-ipvs" };
  const node = nodeComponent(nodeVersion);
  const components = bom.components.map((component) => ({
    ...component,
    scope: bundled.has(`${component.name}@${component.version}`) ? "required" : "excluded",
  }));
  return {
    ...document,
    metadata: { ...metadata, component: own },
    components: [...components, node],
    dependencies: [
      ...bom.dependencies.map((dependency) =>
        dependency.ref === own["bom-ref"]
          ? { ...dependency, dependsOn: [...(dependency.dependsOn ?? []), node["bom-ref"]] }
          : dependency,
      ),
      { ref: node["bom-ref"], dependsOn: [] },
    ],
  };
}

function nodeComponent(version: string): Component {
  return {
    "bom-ref": `node@${version}`,
    type: "application",
    name: "node",
    version,
    scope: "required",
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    purl: `pkg:generic/node@${version}`,
    licenses: [{ license: { id: "MIT" } }],
  };
}
