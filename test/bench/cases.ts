/** Every case, in the order of the table of targets. */
import type { Case } from "./case.ts";
import { changeCases } from "./cases/change.ts";

export const cases: readonly Case[] = [...changeCases];
