/** The program as a bundle: text of files and the packages that are in them. Depends on nothing but the sources. */
import { basename, join } from "node:path";
import { build, type OutputFile, transform } from "esbuild";
import { narrowPackages } from "./narrow-packages.ts";

export interface Bundle {
  /** By name, as they lie in dist/lib. */
  readonly files: ReadonlyMap<string, string>;
  /** Folders of the packages of which something is in the bundle, from the project's root, sorted. */
  readonly packageFolders: readonly string[];
}

/** What esbuild's files of the program end in; others hold legal comments. */
export const moduleEnding = ".cjs";

const target = "node22.19";

/** Programs by their names in dist/. Each has chunks of its own: what the daemon loads does not depend on the other. */
export const programEntries: Readonly<Record<string, string>> = {
  "kube-ipvs": "src/main.ts",
  "kube-ipvs-e2e": "src/e2e/main.ts",
};

/** All programs. */
export async function bundleProgram(project: string): Promise<Bundle> {
  const entries = Object.entries(programEntries);
  const bundles = await Promise.all(
    entries.map(([name, source]) => bundleOne(project, { name, source })),
  );
  return {
    files: new Map(bundles.flatMap(({ files }) => [...files])),
    packageFolders: [...new Set(bundles.flatMap(({ packageFolders }) => packageFolders))].sort(),
  };
}

/** Chunks are cut only in the newer module format; each is put into the older one afterwards. */
async function bundleOne(
  project: string,
  { name, source }: { readonly name: string; readonly source: string },
): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    // Paths in comments and in the names of chunks are from here.
    absWorkingDir: project,
    entryPoints: { [name]: join(project, source) },
    outdir: join(project, "dist/lib"),
    outExtension: { ".js": moduleEnding },
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target,
    define: { "import.meta.url": "moduleUrl" },
    plugins: [narrowPackages],
    legalComments: "linked",
    logLevel: "warning",
    metafile: true,
    write: false,
  });
  const files = new Map<string, string>();
  for (const file of outputFiles) files.set(basename(file.path), await asCommonJs(file));
  return { files, packageFolders: packageFoldersOf(Object.values(metafile.outputs)) };
}

async function asCommonJs({ path, text }: OutputFile): Promise<string> {
  if (!path.endsWith(moduleEnding)) return text;
  const { code } = await transform(text, {
    format: "cjs",
    platform: "node",
    target,
    supported: { "dynamic-import": false },
    // The text stays in memory for functions that are compiled at their first call. Names stay, for stack traces.
    minifyWhitespace: true,
    banner: 'const moduleUrl = require("node:url").pathToFileURL(__filename).href;',
  });
  return code;
}

type Output = { readonly inputs: Readonly<Record<string, { readonly bytesInOutput: number }>> };

function packageFoldersOf(outputs: readonly Output[]): readonly string[] {
  const folders = outputs
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? "");
  return [...new Set(folders)].filter((folder) => folder !== "").sort();
}
