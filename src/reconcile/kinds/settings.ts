/** Kernel modules and sysctls. */
import { absent } from "../drift.ts";
import { alone, type Kinds } from "./kind.ts";

export const settingKinds: Kinds<"module-load" | "sysctl-write"> = {
  "module-load": {
    subject: ({ module }) => ({ type: "module", module }),
    send: alone(({ module }, { modules }) => modules.load(module)),
  },
  "sysctl-write": {
    part: "sysctls",
    subject: ({ path }) => ({ type: "sysctl", path }),
    send: alone(({ path, after }, { sysctl }) => sysctl.ensure(path, after)),
    fold: ({ path, after }, { cached }) => cached.sysctls.set(path, after),
    detail: ({ before = absent, after }) => `${before} -> ${after}`,
    drift({ path }, { sysctls }) {
      const difference = sysctls.get(path);
      if (difference === undefined) return [];
      const { before = absent, after = absent } = difference;
      return [{ kind: "sysctl", before, after }];
    },
  },
};
