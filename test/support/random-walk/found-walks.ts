/** Walks that failed in the past, shortened: `found/NAME.json` contains the steps. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Walk } from "./walk-step.ts";

export interface FoundWalk {
  readonly name: string;
  readonly walk: Walk;
}

const folder: string = join(import.meta.dirname, "found");

export function foundWalks(): readonly FoundWalk[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((file) => file.endsWith(".json"))
    .map((file) => ({
      name: file.slice(0, -".json".length).replaceAll("-", " "),
      walk: JSON.parse(readFileSync(join(folder, file), "utf8")) as Walk,
    }));
}
