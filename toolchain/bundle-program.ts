/** Bundles the program: the text of its files, and the packages in them. Depends only on the sources. */
import { basename, join } from "node:path";
import { build, type OutputFile, transform } from "esbuild";
import { narrowPackages } from "./narrow-packages.ts";

export interface Bundle {
  /** File contents by name in dist/lib. */
  readonly files: ReadonlyMap<string, string>;
  /** Folders of the packages in the bundle, relative to the project's root, sorted. */
  readonly packageFolders: readonly string[];
}

/** Suffix of the program's files. esbuild's other files contain legal comments. */
export const moduleEnding = ".cjs";

const target = "node22.19";

/** Programs by their names in dist/. Each has its own chunks, so that the daemon does not load the others' code. */
export const programEntries: Readonly<Record<string, string>> = {
  "kube-ipvs": "src/main.ts",
  "kube-ipvs-e2e": "src/e2e/main.ts",
};

/** Bundles all programs. */
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

/** esbuild splits only ES modules into chunks. Each chunk is then converted to CommonJS. */
async function bundleOne(
  project: string,
  { name, source }: { readonly name: string; readonly source: string },
): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    // Paths in comments and chunk names are relative to this folder.
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
    // Whitespace is removed because the text stays in memory, for functions that are compiled at their first call.
    // Names are kept for stack traces.
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
