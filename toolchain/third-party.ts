/** Writes dist/lib/THIRD-PARTY.txt: the authors of the packages in the bundle, and their licenses. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A package in the bundle. */
export interface ThirdParty {
  readonly name: string;
  readonly version: string;
  /** SPDX expression from the package's metadata. */
  readonly license: string;
  /** The package's license text. Empty if the license is named only in its README or metadata. */
  readonly text: string;
}

const licenseFile = /^(licen[cs]e|copying|notice)(\.(md|txt))?$/i;

/** Throws for a package that states no license. */
export function readThirdParty(folder: string): ThirdParty {
  const { name, version, license } = JSON.parse(
    readFileSync(join(folder, "package.json"), "utf8"),
  ) as { readonly name: string; readonly version: string; readonly license?: unknown };
  if (typeof license !== "string") throw new Error(`${name} ${version} states no license`);
  const texts = readdirSync(folder)
    .filter((file) => licenseFile.test(file))
    .sort()
    .map((file) => readFileSync(join(folder, file), "utf8").trim());
  return { name, version, license, text: texts.join("\n\n") };
}

/** A table of all packages, followed by each license text. */
export function thirdPartyText(parties: readonly ThirdParty[]): string {
  const nameWidth = Math.max(...parties.map(({ name }) => name.length));
  const versionWidth = Math.max(...parties.map(({ version }) => version.length));
  const rows = parties.map(
    ({ name, version, license }) =>
      `${name.padEnd(nameWidth)}  ${version.padEnd(versionWidth)}  ${license}`,
  );
  const words = parties
    .filter(({ text }) => text !== "")
    .map(({ name, version, text }) => `${"-".repeat(100)}\n${name} ${version}\n\n${text}\n`);
  const heading =
    "Parts of these packages are in this program, in addition to Node.js (https://github.com/nodejs/node/blob/main/LICENSE):";
  return [heading, "", ...rows, "", ...words].join("\n");
}
