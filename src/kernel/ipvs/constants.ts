/** Constants of linux/ip_vs.h. */
import type { IpvsChange } from "../kernel.ts";

/** IPVS_GENL_NAME and IPVS_GENL_VERSION. */
export const GENERIC_NAME = "IPVS";
export const GENERIC_VERSION = 1;

/** IPVS_CMD_*: commands that read, and commands in replies. */
export const commands = {
  /** IPVS_CMD_NEW_SERVICE, which replies to GET_SERVICE also use. */
  newService: 1,
  deleteService: 3,
  getService: 4,
  /** IPVS_CMD_NEW_DEST, which replies to GET_DEST also use. */
  newDestination: 5,
  getDestination: 8,
  /** IPVS_CMD_SET_CONFIG, which replies to GET_CONFIG also use. */
  setConfig: 12,
  getConfig: 13,
} as const;

/** IPVS_CMD_*: commands that modify state. */
export const changeCommands: Readonly<Record<IpvsChange["kind"], number>> = {
  "virtual-server-create": commands.newService,
  "virtual-server-update": 2,
  "virtual-server-remove": commands.deleteService,
  "real-server-create": commands.newDestination,
  "real-server-update": 6,
  "real-server-remove": 7,
};

/** IP_VS_SVC_F_PERSISTENT; derived from the timeout. */
export const PERSISTENT_FLAG = 0x1;
/** IP_VS_SVC_F_HASHED; set by the kernel in every reply. */
export const HASHED_FLAG = 0x2;

/** IP_VS_CONN_F_FWD_MASK; 0 means masquerading. */
export const FORWARDING_MASK = 0x7;
