/** The kernel refuses netlink requests of one family; see netlink-fault.c. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Row } from "../row.ts";
import type { World } from "../world.ts";

/** linux/netlink.h, linux/netfilter/nfnetlink.h */
const families = {
  IPVS: "16 -1",
  ipset: "12 6",
  conntrack: "12 1",
  rtnetlink: "0 -1",
} as const;
const errnos = { ENOMEM: 12, EBUSY: 16, EPERM: 1, ENOBUFS: 105 } as const;
/** Of the requests. */
const percent = 30;
const library = resolve(import.meta.dirname, "../../../build/test/netlink-fault.so");
const faultFile = "/run/faults/netlink-fault";
const hitsFile = `${faultFile}.hits`;

function refuse(family: keyof typeof families, errno: keyof typeof errnos): Row["inject"] {
  return async (world) => {
    rmSync(hitsFile, { force: true });
    writeFileSync(faultFile, `${families[family]} ${errnos[errno]} ${percent}\n`);
    await world.churn();
    await world.until(`${family} was refused with ${errno}`, async () => {
      if (!existsSync(hitsFile)) await world.churn();
      return existsSync(hitsFile);
    });
    await world.churn();
    await pause(1_000);
    rmSync(faultFile);
    return `${statSync(hitsFile).size} requests refused`;
  };
}

/** The rows after these go on with the library, which does nothing without its file. */
async function preload(world: World): Promise<void> {
  if (readFileSync(`/proc/${world.program.pid}/maps`, "utf8").includes(library)) return;
  const environment = { LD_PRELOAD: library, NETLINK_FAULT: faultFile };
  await world.restartProgram({ environment });
}

type Case = readonly [keyof typeof families, keyof typeof errnos];

const cases: readonly Case[] = (Object.keys(families) as Case[0][]).flatMap((family) =>
  (Object.keys(errnos) as Case[1][]).map((errno): Case => [family, errno]),
);

/** In the short form each family and each errno once. */
const shortCases: readonly string[] = [
  "IPVS ENOBUFS",
  "ipset EBUSY",
  "conntrack EPERM",
  "rtnetlink ENOMEM",
];

export const netlink: readonly Row[] = cases.map(([family, errno]) => ({
  name: `${errno} from ${family}`,
  short: shortCases.includes(`${family} ${errno}`) ? 1 : 0,
  long: 10,
  inject: refuse(family, errno),
  before: preload,
}));
